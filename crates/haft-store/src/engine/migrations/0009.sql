ALTER TABLE approvals ADD COLUMN begun_seq BIGINT;
