// One job: its arguments, its attempts with their errors, retry and cancel.

import { get, part, send, to } from "../parts/api.js";
import { action, empty, facts, heading, link, readOnly, section, state, table } from "../parts/blocks.js";
import { ask } from "../parts/dialogs.js";
import { h } from "../parts/dom.js";
import { duration, moment, when } from "../parts/format.js";
import { value } from "../parts/json.js";

const OVER = ["succeeded", "dead"];

export const title = ({ job }) => `Job ${job}`;

export function load({ job }) {
  return get(`/v1/jobs/${part(job)}`);
}

export function show(job, _, __, refresh) {
  return h(
    "div",
    {},
    heading(job.job_id, {
      kicker: [link(`${to("jobs")}?queue=${part(job.queue)}`, `Queue ${job.queue}`)],
      badge: state(job.state),
      lead: `Task ${job.task}`,
      actions: [
        job.state === "dead" && action("admin", "Retry", () => retry(job, refresh), { class: "primary" }),
        !OVER.includes(job.state) && action("admin", "Cancel", () => cancel(job, refresh), { class: "danger" }),
      ],
    }),
    (job.state === "dead" || !OVER.includes(job.state)) && readOnly("admin", "retry and cancel jobs"),
    job.last_error && section("Last error", h("pre", { class: "text", tabindex: "0" }, job.last_error)),
    h(
      "div",
      { class: "columns" },
      section("Attempts", attempts(job.history)),
      h(
        "div",
        { class: "stack" },
        section(
          "Job",
          facts([
            ["Enqueued", moment(job.enqueued_at)],
            ["Due", when(job.run_at)],
            ["Priority", job.priority],
            ["Attempts", `${job.attempts} of ${job.max_retries + 1}`],
            ["Held by", job.owner],
            ["Lease ends", job.lease_until && when(job.lease_until)],
            ["Limit of an attempt", job.timeout_ms && duration(job.timeout_ms)],
            ["Idempotency key", job.idempotency_key],
            ["Waits for", job.after?.length ? job.after.map((one) => link(to("jobs", one), one)) : null],
            ["Limit key", job.limit_key],
          ]),
        ),
        section("Arguments", value(job.payload)),
        job.result !== undefined && section("Result", value(job.result)),
      ),
    ),
  );
}

function attempts(rows) {
  if (!rows.length) return empty("Not started yet", "A worker of this queue claims it when it is due.", "driftq job work app:jobs");
  return h(
    "ol",
    { class: "timeline" },
    rows.map((run, number) => {
      const outcome = run.ended_at === null ? "in_flight" : run.error === null ? "succeeded" : "failed";
      return h(
        "li",
        { class: outcome, "data-key": `a${number}` },
        h("p", { class: "what" }, state(outcome), " attempt ", String(number + 1), " by ", h("b", {}, run.owner), run.ended_at && `, ${duration(Date.parse(run.ended_at) - Date.parse(run.started_at))}`),
        h("p", { class: "at" }, moment(run.started_at)),
        run.error && h("pre", { class: "text", tabindex: "0" }, run.error),
      );
    }),
  );
}

function retry(job, refresh) {
  ask({
    title: `Retry ${job.job_id}?`,
    body: h("p", {}, `The job becomes ready at once and begins again with its first of ${job.max_retries + 1} attempts. Its history stays.`),
    label: "Retry",
    act: async () => `${job.job_id} is ${(await send("POST", `/v1/jobs/${part(job.job_id)}/requeue`)).state}.`,
    done: refresh,
  });
}

function cancel(job, refresh) {
  ask({
    title: `Cancel ${job.job_id}?`,
    body: h("p", {}, job.state === "in_flight" ? "The worker that holds it loses its lease; what it has done so far stays done. The job is dead." : "The job is dead and does not run. It can be retried later."),
    label: "Cancel the job",
    danger: true,
    act: async () => `${job.job_id} is ${(await send("POST", `/v1/jobs/${part(job.job_id)}/cancel`)).state}.`,
    done: refresh,
  });
}
