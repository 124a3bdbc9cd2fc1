-- Groups that follow the log. Everything up to position is handled; the newest token may move it.
CREATE TABLE {event_followers} (
    name {text} NOT NULL PRIMARY KEY,
    position {bigint} NOT NULL,
    token {bigint} NOT NULL,
    moved_at {bigint} NOT NULL
) {clustered};
