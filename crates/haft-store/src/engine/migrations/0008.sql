ALTER TABLE approvals ADD COLUMN ended TEXT;
UPDATE approvals SET ended = (SELECT coalesce(error, '') FROM ledger WHERE ledger.call_id = approvals.call_id ORDER BY seq DESC LIMIT 1);
CREATE INDEX approvals_by_call ON approvals (call_id);
DROP INDEX ledger_by_call;
DROP INDEX ledger_by_tool;
