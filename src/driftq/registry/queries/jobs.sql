-- name: record_job
-- A key whose time is over counts as never seen.
INSERT INTO {processed_jobs} AS kept (scope, job_key, completed_at, expires_at, result_hash)
VALUES (:scope, :job_key, {now}, {now} + :ttl_ms, :result_hash)
ON CONFLICT (scope, job_key) DO UPDATE
SET completed_at = excluded.completed_at, expires_at = excluded.expires_at, result_hash = excluded.result_hash
WHERE kept.expires_at <= {now}
RETURNING job_key;

-- name: find_job
SELECT scope, job_key, completed_at, expires_at, result_hash
FROM {processed_jobs}
WHERE scope = :scope AND job_key = :job_key AND expires_at > {now};

-- name: forget_jobs
DELETE FROM {processed_jobs}
WHERE (scope, job_key) IN (
    SELECT scope, job_key FROM {processed_jobs} WHERE expires_at <= {now} ORDER BY expires_at LIMIT :most
);
