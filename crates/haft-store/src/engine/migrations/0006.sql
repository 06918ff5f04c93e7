CREATE TABLE results (
    workspace TEXT NOT NULL,
    hash TEXT NOT NULL,
    size BIGINT NOT NULL,
    packing BIGINT NOT NULL,
    packed BIGINT NOT NULL,
    kept_ms BIGINT NOT NULL,
    content {bytes} NOT NULL,
    PRIMARY KEY (workspace, hash)
);
CREATE INDEX results_by_age ON results (workspace, kept_ms, packed);
CREATE TABLE call_results (
    seq {key},
    workspace TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX call_results_by_result ON call_results (workspace, hash);
