// Elements with data-live="address" → kept fresh from that address, while somebody can see them.
// The answer's element with the same id replaces the content; with data-into="id" that of another element. A hidden tab asks for nothing; what holds
// the focus, or is being selected, is left alone until the next time.
(() => {
    "use strict";
    const EVERY = 5000, SLOWEST = 60000;
    let timer = 0, wait = EVERY, paused = false, busy = false;

    const places = () => [...document.querySelectorAll("[data-live]")];
    const target = (place) => place.dataset.into ? document.getElementById(place.dataset.into) : place;
    const held = (place) => place.contains(document.activeElement) || place.querySelector("input:checked") ||
        (!getSelection().isCollapsed && place.contains(getSelection().anchorNode));

    async function fresh(address) {
        const answer = await fetch(address, { headers: { "X-Live": "1" }, credentials: "same-origin" });
        // A login page instead of the answer: somebody logged out elsewhere. Let the next click say so.
        if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
        return new DOMParser().parseFromString(await answer.text(), "text/html");
    }

    async function refresh() {
        if (busy) return;
        busy = true;
        try {
            for (const address of new Set(places().map((place) => place.dataset.live))) {
                const page = await fresh(address);
                for (const one of places().filter((one) => one.dataset.live === address)) {
                    const place = target(one), found = place && page.getElementById(place.id);
                    if (found && !held(place)) place.innerHTML = found.innerHTML;
                }
            }
            wait = EVERY;
            say("");
        } catch {
            wait = Math.min(wait * 2, SLOWEST);
            say("The server does not answer; what you see may be old.");
        } finally {
            busy = false;
        }
    }

    function say(text) {
        const line = document.getElementById("live-problem");
        if (line) line.textContent = text;
    }

    function plan() {
        clearTimeout(timer);
        if (document.hidden || paused) return;
        timer = setTimeout(async () => { await refresh(); plan(); }, wait);
    }

    function toggle(button) {
        paused = !paused;
        button.setAttribute("aria-pressed", String(paused));
        button.textContent = paused ? "Go on refreshing" : "Stop refreshing";
        plan();
    }

    document.addEventListener("visibilitychange", async () => {
        if (!document.hidden && !paused) await refresh();
        plan();
    });
    document.addEventListener("DOMContentLoaded", () => {
        const button = document.getElementById("live-toggle");
        if (button) button.addEventListener("click", () => toggle(button));
        plan();
    });
})();
