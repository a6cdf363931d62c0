// Count the ticked boxes of a list; tick all from the head of the table, a range with Shift.
// A choice with data-submits sends its form.
// It listens on the document, because a list that refreshes itself has new boxes every few seconds.
(() => {
    "use strict";
    let last = null, shift = false;

    const boxes = () => [...document.querySelectorAll("#result_list input.action-select")];

    function tick(all, box) {
        const from = all.indexOf(last), to = all.indexOf(box);
        if (shift && from >= 0) {
            all.slice(Math.min(from, to), Math.max(from, to) + 1).forEach((one) => { one.checked = box.checked; });
        }
        last = box;
    }

    function count(all) {
        const ticked = all.filter((box) => box.checked).length;
        const counter = document.querySelector(".action-counter"), head = document.getElementById("action-toggle");
        if (counter) counter.textContent = `${ticked} of ${all.length} selected`;
        if (head) head.checked = ticked > 0 && ticked === all.length;
    }

    document.addEventListener("click", (event) => { shift = event.shiftKey; }, true);
    document.addEventListener("change", ({ target }) => {
        if ("submits" in target.dataset) { target.form.submit(); return; }
        const all = boxes();
        if (target.id === "action-toggle") all.forEach((box) => { box.checked = target.checked; });
        else if (all.includes(target)) tick(all, target);
        else return;
        count(all);
    });
})();
