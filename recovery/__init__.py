"""The safety net: catch-up, reaper, resend."""
