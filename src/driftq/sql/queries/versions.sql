-- name: make_versions
CREATE TABLE IF NOT EXISTS {schema_versions} (
    room {text} NOT NULL,
    version {bigint} NOT NULL,
    name {text} NOT NULL,
    applied_at {bigint} NOT NULL,
    PRIMARY KEY (room, version)
) {clustered};

-- name: versions
SELECT room, max(version) AS version FROM {schema_versions} GROUP BY room;

-- name: version
SELECT version FROM {schema_versions} WHERE room = :room AND version = :version;

-- name: record_version
INSERT INTO {schema_versions} (room, version, name, applied_at) VALUES (:room, :version, :name, {now});
