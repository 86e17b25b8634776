// Entry point: a report shows its embedded data, a live page the data of its server.

const NAV = {
  flow: "flow",
  ranks: "ranks",
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
  new Ranks();
  new Prepared();
  new Flow();
  const configuration = new Configuration();
  const overlay = new Overlay(!report);
  page.overlay = overlay;
  const address = new Address(overlay, !report);
  if (report) show_report(JSON.parse(report.textContent), configuration, address);
  else show_live(head, configuration, address);
  drawer("nav", draw_nav);
  new MutationObserver(() => redraw("nav")).observe(document.querySelector("main"), {
    attributes: true,
    attributeFilter: ["hidden"],
    subtree: true,
  });
  redraw("nav", "head", "toolbar", "happened", "timeline");
  document.querySelector(".skip").addEventListener("click", go_to);
  addEventListener("keydown", (event) => event.key === "Escape" && hide_tip());
  addEventListener("scroll", follow_tip, { passive: true, capture: true });
}

function show_report({ runs, config, made }, configuration, address) {
  view.runs = (runs ?? []).map((history, n) => Object.assign(Run.read(history), { colour: n }));
  configuration.take(config ?? {});
  view.made = number(made?.time ?? null);
  const words = view.made === null ? "" : `, written on ${day(view.made)}`;
  say(find("foot"), `A report${words}${made?.program ? ` by ${made.program}` : ""}. It loads no other files.`);
  address.follow();
  if (view.runs.length === 0) say(find("curves-empty"), "This report contains no run.");
  redraw("groups", "plots", "runs", "ranks", "prepared");
}

function show_live(head, configuration, address) {
  const session = new Session();
  const controls = new Controls(session);
  new Rows(session);
  const feed = new Feed({
    history(json) {
      const run = Object.assign(Run.read(json), { away: view.run?.away });
      view.runs = [run, ...view.runs.slice(1)];
      say(find("foot"), `${run.program} · ${run.place}`);
      find("rows").hidden = run.kind !== "train";
      configuration.forget();
      configuration.look(view.status);
      address.follow();
      redraw("groups", "plots", "timeline", "happened", "head", "ranks", "prepared", "runs", "toolbar");
    },
    event(event) {
      view.run?.take(event);
      data_came();
    },
    status(status) {
      // Without a response, the last status stays visible and is marked as stale.
      if (status) [view.status, view.status_time] = [status, Date.now()];
      if (status) remember(status);
      configuration.look(status);
      view.stale = !status;
      redraw("flow", "head", "controls");
    },
    state: (state) => head.connection(state),
  });
  controls.draw();
  feed.start();
  page.feed = feed;
}

function draw_nav() {
  const shown = Object.entries(NAV).filter(([id]) => !find(id).hidden);
  const key = shown.map(([id]) => id).join();
  if (page.nav === key) return;
  page.nav = key;
  find("nav").replaceChildren(...shown.map(([id, text]) => make("a", { href: `#${id}`, text, on: { click: go_to } })));
}

/** Scrolls to a section without a change of the address, which contains the view state. */
function go_to(event) {
  const place = document.querySelector(event.currentTarget.getAttribute("href"));
  event.preventDefault();
  place.scrollIntoView();
  if (!place.hasAttribute("tabindex")) place.setAttribute("tabindex", "-1");
  place.focus({ preventScroll: true });
}

const page = {};
begin();
