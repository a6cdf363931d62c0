// Refresh elements with data-live="address" from that address while they are visible.
// The answer's element with the same id replaces the content; with data-into="id" that of another element.
// A hidden tab sends no requests. An element with the focus, a ticked box or a selection is skipped until the
// next time; while the user types, or has a dialog open, only the counters are refreshed.
(() => {
    "use strict";
    const EVERY = 5000, SLOWEST = 60000, KEPT = "refreshing stopped";
    const FIELDS = "input:not([type=checkbox]):not([type=radio]):not([type=hidden]), textarea, select, [contenteditable=true]";
    const OPEN = "dialog[open], [aria-modal=true], [aria-expanded=true], .select2-container--open";
    let timer = 0, wait = EVERY, busy = false, paused = sessionStorage.getItem(KEPT) === "yes";

    const places = () => [...document.querySelectorAll("[data-live]")];
    const target = (place) => place.dataset.into ? document.getElementById(place.dataset.into) : place;
    const seen = (one) => one.getClientRects().length > 0;
    const engaged = () => document.activeElement?.matches(FIELDS) || [...document.querySelectorAll(OPEN)].some(seen);
    const held = (place) => place.contains(document.activeElement) || place.querySelector("input:checked") ||
        (!getSelection().isCollapsed && place.contains(getSelection().anchorNode)) ||
        (place.id !== "pulse" && engaged());

    async function fresh(address) {
        const answer = await fetch(address, { headers: { "X-Live": "1" }, credentials: "same-origin" });
        // A redirect to the login page: the session has ended. The next click shows it.
        if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
        return new DOMParser().parseFromString(await answer.text(), "text/html");
    }

    async function refresh() {
        if (busy) return;
        busy = true;
        try {
            const wanted = places().filter((one) => target(one) && !held(target(one)));
            for (const address of new Set(wanted.map((place) => place.dataset.live))) {
                const page = await fresh(address);
                for (const one of places().filter((one) => one.dataset.live === address)) {
                    const place = target(one), found = place && page.getElementById(place.id);
                    // Checked again: the user may have started to type while the request was running.
                    if (found && !held(place)) replace(place, found);
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

    // Unchanged content is not replaced, so that a screen reader keeps its place.
    function replace(place, found) {
        if (place.innerHTML === found.innerHTML) return;
        const folds = () => [...place.querySelectorAll("details")];
        const open = folds().map((one) => one.open);
        place.innerHTML = found.innerHTML;
        folds().forEach((one, number) => { if (number in open) one.open = open[number]; });
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

    function show(button) {
        button.setAttribute("aria-pressed", String(paused));
        button.lastElementChild.textContent = paused ? "Go on refreshing" : "Stop refreshing";
    }

    function toggle(button) {
        paused = !paused;
        sessionStorage.setItem(KEPT, paused ? "yes" : "");  // until the tab is closed
        show(button);
        plan();
    }

    document.addEventListener("visibilitychange", async () => {
        if (!document.hidden && !paused) await refresh();
        plan();
    });
    document.addEventListener("DOMContentLoaded", () => {
        const button = document.getElementById("live-toggle");
        if (button) {
            show(button);
            button.addEventListener("click", () => toggle(button));
        }
        plan();
    });
})();
