// Review: one image at a time with its two best clusters; the answers teach the model most if they come in this order.

import { el, button, number, plural } from "./dom.js";
import { chooseCluster } from "./choose.js";
import { picture } from "./tiles.js";

const BLOCK = 20; // questions asked for at a time
const FEW = 4; // questions left when more are asked for; their images are loaded ahead
const PICTURES = 8; // of each cluster
const ENOUGH = 10; // answers after which an update is recommended

export function reviewView(app) {
  if (!app.source.editable) return null;
  const { source } = app, { item } = app.data;
  const skipped = new Set(), done = []; // done: the answers of this visit, {question, edited}
  let queue = [], answered = 0, updatedAt = 0, pending = 0, fetching = null, exhausted = false, stale = true;

  // ---- elements ----

  const bar = el("progress", { max: 1, value: 0, "aria-label": `Confirmed ${item}s` });
  const progress = el("p", { className: "small", role: "status" });
  const learn = button(`Update the other ${item}s`, update, { title: "Let the model learn from your answers, and see what would change" });
  const stage = el("button", { type: "button", className: "review-image", onclick: () => app.view(queue[0].row) });
  const file = el("p", { className: "small file" });
  const choices = [choice(0), choice(1)];
  const question = el("div", { className: "review" }, el("div", { className: "review-stage" }, stage, file),
    el("div", { className: "review-choices", role: "group", "aria-label": `Which cluster does the ${item} belong to?` }, ...choices));
  const actions = el("div", { className: "review-actions" },
    keyButton("Neither", "N", () => answer("neither")), keyButton("Another…", "O", other), keyButton("Skip", "Space", skip), keyButton("Undo", "U", undo));
  const end = el("p", { className: "empty", hidden: true });
  const title = el("h2", { id: "review-title", tabIndex: -1, textContent: "Review" });
  const element = el("section", { id: "view-review", "aria-labelledby": "review-title" },
    el("div", { className: "head" }, title, el("div", { className: "tools" }, learn)),
    el("p", { className: "about", textContent: `Which cluster does the ${item} belong to?${app.data.can_refine ? ` After about ${ENOUGH} answers, let the other ${item}s follow.` : ""}` }),
    el("div", { className: "review-progress" }, bar, progress), question, actions, end);

  // A click with the mouse leaves no focus behind, so that the space bar always skips.
  element.addEventListener("click", (event) => { if (event.detail && element.contains(document.activeElement)) document.activeElement.blur(); });

  function keyButton(text, key, onclick) {
    return el("button", { type: "button", onclick, "data-key": key }, text, " ", el("kbd", { textContent: key }));
  }

  function choice(i) {
    return el("button", { type: "button", className: "review-choice", "data-key": String(i + 1), onclick: () => answer(i) });
  }

  function update() {
    updatedAt = answered;
    app.go("refine");
    app.views.refine.start();
  }

  // ---- questions ----

  // Fetches the next questions, in the order of how much their answers teach; `afresh` replaces those that wait.
  function fetchQuestions(afresh = false) {
    fetching ??= (async () => {
      try {
        const questions = await source.review(BLOCK + skipped.size + done.length);
        const asked = new Set([...skipped, ...done.map(({ question }) => question.row)]);
        if (afresh) queue = queue.slice(0, 1); // the image on the screen stays
        const waiting = new Set(queue.map(({ row }) => row));
        const fresh = questions.filter(({ row }) => !asked.has(row) && !waiting.has(row)).slice(0, BLOCK);
        queue.push(...fresh);
        exhausted = !fresh.length;
      } catch (error) {
        exhausted = true;
        app.say(error.message, { error: true });
      } finally {
        fetching = null;
      }
      render();
    })();
  }

  function next() {
    queue.shift();
    if (queue.length < FEW && !exhausted) fetchQuestions();
    render();
  }

  async function save(verb, args, text) {
    const asked = queue[0], entry = { question: asked, edited: true };
    done.push(entry);
    answered++;
    next();
    pending++;
    const saved = await app.edit(verb, args, text);
    pending--;
    if (!saved) { // the page has said why
      done.splice(done.indexOf(entry), 1);
      answered--;
      queue.unshift(asked);
      render();
    } else if (answered % BLOCK === 0) fetchQuestions(true);
  }

  const confirm = (row, cluster, text) => (app.data.labels[row] === cluster
    ? save("lock", { rows: [row] }, text) : save("batch", { edits: [["move", { rows: [row], cluster }], ["lock", { rows: [row] }]] }, text));

  function answer(which) {
    if (!queue.length) return;
    const { row, first, second } = queue[0];
    if (which === "neither") save("reject", { rows: [row], clusters: [first, second] }, "");
    else confirm(row, [first, second][which], ""); // the next image says enough
  }

  async function other() {
    if (!queue.length) return;
    const { row } = queue[0], chosen = await chooseCluster(app, `Cluster of the ${item}`, [row]);
    title.focus({ preventScroll: true }); // not on the button, so that the space bar skips
    if (!chosen || queue[0]?.row !== row) return;
    if (chosen.name) save("batch", { edits: [["new", { rows: [row], name: chosen.name }], ["lock", { rows: [row] }]] }, `Moved to the new cluster “${chosen.name}”.`);
    else confirm(row, chosen.cluster, `${app.data.labels[row] === chosen.cluster ? "Confirmed in" : "Moved to"} “${app.data.names[chosen.cluster]}”.`);
  }

  function skip() {
    if (!queue.length) return;
    skipped.add(queue[0].row);
    done.push({ question: queue[0], edited: false });
    next();
  }

  async function undo() {
    if (pending || !done.length) return;
    const last = done.pop();
    if (last.edited) {
      pending++;
      const undone = await app.edit("undo");
      pending--;
      if (!undone) {
        done.push(last);
        return;
      }
      answered--;
    }
    skipped.delete(last.question.row);
    queue.unshift(last.question);
    render();
  }

  // ---- drawing ----

  function render() {
    const { n, reviewed } = app.data, [current] = queue;
    bar.max = n;
    bar.value = reviewed;
    progress.textContent = `${plural(answered, "answer")} in this session · ${number(reviewed)} of ${app.count(n)} confirmed`;
    learn.hidden = !app.views.refine;
    learn.classList.toggle("primary", answered - updatedAt >= ENOUGH);
    question.hidden = !current;
    end.hidden = Boolean(current);
    end.textContent = exhausted ? `No more ${item}s to review.` : "Looking for the most useful questions…";
    for (const control of actions.children) control.disabled = !current && control.dataset.key !== "U";
    actions.lastElementChild.disabled = !done.length;
    if (!current || stage.dataset.row === String(current.row)) return;
    stage.dataset.row = current.row;
    showImage(current.row);
    [[current.first, current.p_first], [current.second, current.p_second]].forEach(([cluster, probability], i) => {
      const rows = (app.cluster(cluster)?.typical ?? []).filter((row) => row !== current.row).slice(0, PICTURES);
      const chance = `${app.data.labels[current.row] === cluster ? "now · " : ""}${Math.round(100 * probability)} %`;
      choices[i].replaceChildren(
        el("span", { className: "review-name" }, el("kbd", { textContent: String(i + 1) }), app.mark(cluster), app.name(cluster), el("span", { className: "small", textContent: chance })),
        el("span", { className: `strip${app.data.has_images ? "" : " text"}` }, ...rows.map((row) => el("span", { className: "tile" }, picture(app, row, false)))));
      choices[i].setAttribute("aria-label", `${i + 1}: ${app.data.names[cluster]}, ${chance}`);
    });
    for (const { row } of queue.slice(1, FEW)) if (source.image(row)) new Image().src = source.image(row);
  }

  async function showImage(row) {
    const url = source.image(row) ?? source.thumbnail(row);
    stage.replaceChildren(...(url ? [el("img", { src: url, alt: "" })] : []));
    stage.setAttribute("aria-label", `Open the ${item}`);
    file.textContent = "";
    const [id] = await source.ids([row]).catch(() => [""]);
    if (stage.dataset.row !== String(row)) return;
    (url ? file : stage).replaceChildren(el("bdi", { textContent: id }));
    stage.setAttribute("aria-label", `Open ${id}`);
  }

  // Edits made elsewhere may change the best questions, and "undo" must not take them back.
  app.on("data", () => {
    if (pending) return;
    done.length = 0;
    stale = true;
  });

  function refresh() {
    if (stale) {
      stale = exhausted = false;
      queue = [];
      stage.dataset.row = "";
      fetchQuestions();
    }
    render();
  }

  return {
    element,
    show() {
      refresh();
      title.focus({ preventScroll: true });
    },
    update: refresh,
    key(event) {
      if (event.ctrlKey || event.metaKey) return false;
      const onButton = event.key === " " && element.contains(event.target.closest?.("button")); // presses that button
      const key = event.key === " " ? "Space" : event.key.toUpperCase();
      const control = element.querySelector(`[data-key="${CSS.escape(key)}"]`);
      if (!control || onButton) return false;
      control.click();
      return true;
    },
  };
}
