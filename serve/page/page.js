// The wiring: a report shows what it holds, a live page what its server says.

const NAV = {
  flow: "flow",
  prepared: "prepared",
  curves: "curves",
  happened: "events",
  rows: "rows",
  configuration: "configuration",
  controls: "controls",
};

function begin() {
  const report = find("report");
  const head = new Head(!report);
  new Plots();
  new TimeLine();
  new Happened();
  new Prepared();
  new Flow();
  const configuration = new Configuration();
  new Overlay(!report);
  if (report) show_report(JSON.parse(report.textContent), configuration);
  else show_live(head, configuration);
  drawer("nav", draw_nav);
  new MutationObserver(() => redraw("nav")).observe(document.querySelector("main"), {
    attributes: true,
    attributeFilter: ["hidden"],
    subtree: true,
  });
  redraw("nav", "head", "toolbar", "happened", "timeline");
  addEventListener("keydown", (event) => event.key === "Escape" && hide_tip());
  addEventListener("scroll", follow_tip, { passive: true, capture: true });
}

function show_report({ runs, config, made }, configuration) {
  view.runs = (runs ?? []).map((history, n) => Object.assign(Run.read(history), { colour: n }));
  configuration.take(config ?? {});
  say(find("foot"), `A report, made ${made ?? ""}. It loads nothing.`);
  if (view.runs.length === 0) say(find("curves-empty"), "This report holds no run.");
  redraw("groups", "plots", "runs", "prepared");
}

function show_live(head, configuration) {
  const session = new Session();
  const controls = new Controls(session);
  new Rows(session);
  const feed = new Feed({
    history(json) {
      const run = Object.assign(Run.read(json), { away: view.run?.away });
      view.runs = [run, ...view.runs.slice(1)];
      say(find("foot"), `${run.program} · ${run.place}`);
      find("rows").hidden = run.kind !== "train";
      configuration.fetch();
      redraw("groups", "plots", "timeline", "happened", "head", "prepared", "runs", "toolbar");
    },
    event(event) {
      view.run?.take(event, beside());
      data_came();
    },
    status(status) {
      // What was true two seconds ago stays in its place, and is shown to be old: a page that jumps helps nobody.
      if (status) [view.status, view.status_time] = [status, Date.now()];
      view.stale = !status;
      redraw("flow", "head", "controls");
    },
    state: (state) => head.connection(state),
  });
  controls.draw();
  feed.start();
  page.feed = feed;
}

/** What `/history` has of each report and no event says: read off the newest status. */
function beside() {
  const { status } = view;
  if (!status) return {};
  const { held, room } = queue_of((status.actors ?? []).filter((actor) => !actor.is_reader));
  return { "memory/host_bytes": number(status.memory?.host_bytes), "queue/fill": room > 0 ? held / room : null };
}

function draw_nav() {
  const shown = Object.entries(NAV).filter(([id]) => !find(id).hidden);
  const key = shown.map(([id]) => id).join();
  if (page.nav === key) return;
  page.nav = key;
  find("nav").replaceChildren(...shown.map(([id, text]) => make("a", { href: `#${id}`, text })));
}

const page = {};
begin();
