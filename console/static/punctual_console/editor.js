// Ask the server what a schedule means while it is typed in the editor.
(() => {
    "use strict";
    const PAUSE = 300;
    let timer = 0, asked = 0;

    async function ask(place, form) {
        const turn = ++asked;
        try {
            const body = new FormData(form);
            body.set("job", place.dataset.job);
            const answer = await fetch(place.dataset.hint, { method: "POST", body, credentials: "same-origin" });
            if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
            const text = await answer.text();
            if (turn === asked) place.innerHTML = text; // an older answer that arrives late is ignored
        } catch {
            if (turn === asked) place.textContent = "";
        }
    }

    document.addEventListener("DOMContentLoaded", () => {
        const place = document.getElementById("schedule-live"), form = document.getElementById("job_form");
        if (!place || !form) return;
        form.addEventListener("input", (event) => {
            if (!["schedule", "config"].includes(event.target.name)) return;
            clearTimeout(timer);
            timer = setTimeout(() => ask(place, form), PAUSE);
        });
        ask(place, form);
    });
})();
