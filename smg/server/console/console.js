"use strict";
// Everything shown is text: names of workers, models and tenants come from others.
(() => {
  const EVERY_MS = 2000;
  const PATIENCE_MS = 10000;
  const KEY = "smg-console-key";
  const byId = (id) => document.getElementById(id);
  let timer = 0;
  let turn = 0; // of several refreshes under way only the last one counts

  // ---- texts

  const whole = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));
  const rate = (value) => (value >= 100 ? whole(value) : value.toFixed(value >= 10 ? 1 : 2));
  const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 100)} %`);
  const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

  function seconds(value) {
    if (value === null || value === undefined) return "–";
    return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
  }

  function duration(value) {
    const minutes = Math.floor(value / 60);
    if (minutes < 1) return `${value} s`;
    if (minutes < 120) return `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`;
  }

  // ---- elements

  function say(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  const cell = (text, kind = "") => ({ text, kind });
  const head = (text, more = null) => ({ text, kind: "", tag: "th", more });

  function add(parent, tag, kind = "") {
    const made = document.createElement(tag);
    if (kind) made.className = kind;
    parent.append(made);
    return made;
  }

  // A name with what is said of it below: a line, and a list to be opened.
  function putNamed(element, { text, more }) {
    if (!element.childElementCount) {
      add(element, "div");
      add(element, "div", "dim small");
      const details = add(element, "details", "dim small");
      add(details, "summary");
      add(details, "div");
    }
    const [name, about, details] = element.children;
    say(name, text);
    say(about, more.about);
    details.hidden = !more.list.length;
    say(details.children[0], more.title);
    say(details.children[1], more.list.join(", "));
  }

  function put(element, content) {
    if (element.className !== content.kind) element.className = content.kind;
    if (content.more) putNamed(element, content);
    else say(element, content.text);
  }

  // Rows are kept by their keys, so that what a reader has opened or marked stays.
  function rows(id, items, keyOf, cells, empty) {
    const body = byId(id);
    const old = new Map([...body.children].map((row) => [row.dataset.key, row]));
    const shown = items.map((item) => ({ key: `=${keyOf(item)}`, contents: cells(item) }));
    if (!shown.length) shown.push({ key: "none", contents: [cell(empty, "dim")] });
    shown.forEach(({ key, contents }, place) => {
      let row = old.get(key);
      old.delete(key);
      if (!row) {
        row = document.createElement("tr");
        row.dataset.key = key;
        for (const content of contents) {
          const made = add(row, content.tag || "td");
          if (content.tag) made.scope = "row";
          if (key === "none") made.colSpan = 12;
        }
      }
      contents.forEach((content, column) => put(row.children[column], content));
      if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
    });
    for (const row of old.values()) row.remove();
  }

  function state(text, kind) {
    const badge = byId("state");
    say(badge, text);
    badge.className = `badge ${kind}`;
  }

  // ---- parts of the page

  const STATUS = { ready: "good", pending: "warn", draining: "warn" };
  const BREAKER = { closed: "dim", half_open: "warn" };

  function worker(one) {
    const labels = Object.entries(one.labels).map(([label, value]) => `${label}=${value}`);
    const more = { about: one.models.join(", "), title: `${one.runtime}, labels: ${labels.length}`, list: labels };
    const report = one.report;
    const minute = `${whole(one.calls_last_minute)} calls`;
    const failed = one.failures_last_minute;
    return [
      head(one.url, more),
      cell(one.status.replace("_", " "), STATUS[one.status] || "bad"),
      cell(one.breaker.replace("_", " "), BREAKER[one.breaker] || "bad"),
      cell(whole(one.load), "number"),
      cell(report ? `${whole(report.running)} / ${whole(report.waiting)}` : "–", "number"),
      cell(report ? share(report.cache_usage) : "–", "number"),
      cell(share(one.hit_share), "number"),
      cell(report && report.tokens_per_s ? whole(report.tokens_per_s) : "–", "number"),
      cell(failed ? `${minute}, ${whole(failed)} failed` : minute, failed ? "number bad" : "number"),
      cell(report ? `${Math.round(report.age_s)} s ago` : "none", "dim"),
    ];
  }

  function cause(one) {
    if (!one.code) return `the worker answered ${one.status}`;
    return /^\d+$/.test(one.code) ? "invalid request" : one.code;
  }

  function line(id, points, value, most, span) {
    const at = (point) => `${(600 * (1 - point.ago_s / span)).toFixed(1)},${(78 - (76 * value(point)) / most).toFixed(1)}`;
    byId(id).setAttribute("points", points.map(at).join(" "));
  }

  function chart(points) {
    const most = Math.max(1, ...points.map((point) => point.calls));
    const span = Math.max(10, ...points.map((point) => point.ago_s));
    line("chart-calls", points, (point) => point.calls, most, span);
    line("chart-failures", points, (point) => point.failures, most, span);
    say(byId("chart-span"), `over the last ${duration(Math.round(span))}, at most ${rate(most)}`);
  }

  function queue(one) {
    return [
      head(one.name || "all"), cell(whole(one.in_flight), "number"), cell(whole(one.limit), "number"),
      cell(whole(one.waiting), one.waiting ? "number warn" : "number"), cell(whole(one.queue_size), "number"),
    ];
  }

  function tenant(one) {
    const kind = one.used >= 1 ? "number bad" : one.used >= 0.8 ? "number warn" : "number";
    return [head(one.tenant), cell(one.rule || "whole budget"), cell(share(one.used), kind)];
  }

  function show(data) {
    const ready = data.workers_ready;
    if (data.not_ready) state(data.not_ready, "warn");
    else if (!ready) state("no worker is ready", "bad");
    else state("serving", "good");
    say(byId("version"), data.version);
    say(byId("about"), `up ${duration(data.uptime_s)}, policy ${data.policy}`);
    say(byId("calls"), rate(data.calls_per_s));
    say(byId("failures"), rate(data.failures_per_s));
    byId("failures").className = data.failures_per_s ? "bad" : "";
    say(byId("flight"), whole(data.in_flight));
    say(byId("p50"), seconds(data.first_token.p50_s));
    say(byId("p99"), seconds(data.first_token.p99_s));
    chart(data.history);
    const shown = data.workers.length < data.workers_total ? `, ${data.workers.length} shown` : "";
    say(byId("workers-count"), `${ready} of ${data.workers_total} ready${shown}`);
    rows("workers", data.workers, (one) => one.url, worker, "No worker is registered.");
    rows("queues", data.queues, (one) => one.name, queue, "");
    byId("tenants-part").hidden = !data.tenants;
    if (data.tenants) {
      say(byId("tenants-denied"), `${whole(data.tenants.denied)} requests refused since the start`);
      rows("tenants", data.tenants.nearest, (one) => `${one.tenant} ${one.rule}`, tenant, "None has used any.");
    }
    const errors = data.failures;
    say(byId("errors-count"), `${whole(errors.total)} since the start`);
    rows("causes", errors.causes, (one) => `${one.status} ${one.code}`, (one) => [
      head(cause(one)), cell(String(one.status), "number"), cell(whole(one.count), "number"),
      cell(clock(one.at), "dim time"),
    ], "None.");
    rows("latest", errors.latest, (one) => `${one.at} ${one.request_id}`, (one) => [
      cell(clock(one.at), "dim time"), cell(String(one.status), "number"), cell(cause(one)), cell(one.path),
      cell(one.model), cell(one.worker), cell(one.request_id, "small"),
    ], "None.");
    byId("board").hidden = false;
  }

  // ---- the key, and asking for the data

  function ask(why) {
    sessionStorage.removeItem(KEY);
    state("key needed", "warn");
    say(byId("why"), why);
    byId("board").hidden = true;
    byId("forget").hidden = true;
    byId("ask").hidden = false;
    byId("key").focus();
  }

  async function refresh() {
    const mine = ++turn;
    const key = sessionStorage.getItem(KEY);
    let answer;
    let data;
    try {
      answer = await fetch("console/data", {
        headers: key ? { Authorization: `Bearer ${key}` } : {},
        credentials: "omit", cache: "no-store", redirect: "error",
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      data = answer.ok ? await answer.json() : null;
    } catch {
      answer = null;
    }
    if (mine !== turn) return;
    if (answer && (answer.status === 401 || answer.status === 403)) {
      const wrong = answer.status === 403 ? "This key is not an administrator's." : "The gateway does not know this key.";
      document.body.classList.remove("lost");
      ask(key ? wrong : "The console is for administrators.");
      return;
    }
    document.body.classList.toggle("lost", !data);
    if (data) {
      byId("ask").hidden = true;
      byId("forget").hidden = !key;
      show(data);
    } else {
      state(answer ? `the gateway answered ${answer.status}` : "connection lost", "bad");
    }
    timer = setTimeout(refresh, EVERY_MS);
  }

  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = byId("key").value.trim();
    byId("key").value = "";
    if (!/^[\x21-\x7e]+$/.test(key)) {
      ask("A key has only letters, digits and signs of ASCII.");
      return;
    }
    sessionStorage.setItem(KEY, key);
    refresh();
  });
  byId("forget").addEventListener("click", () => {
    clearTimeout(timer);
    turn += 1;
    ask("The key was forgotten.");
  });
  document.addEventListener("visibilitychange", () => {
    // A hidden tab asks seldom; one that is looked at again asks at once.
    if (!document.hidden && byId("ask").hidden) {
      clearTimeout(timer);
      refresh();
    }
  });
  refresh();
})();
