BEGIN TRANSACTION;
CREATE TABLE activity (
	namespace TEXT NOT NULL, 
	hour BIGINT NOT NULL, 
	artifacts BIGINT NOT NULL, 
	raw_tokens BIGINT NOT NULL, 
	given_tokens BIGINT NOT NULL, 
	reads BIGINT NOT NULL, 
	read_tokens BIGINT NOT NULL, 
	compactions BIGINT NOT NULL, 
	unsent_tokens BIGINT NOT NULL, 
	batch BIGINT NOT NULL, 
	CONSTRAINT pk_activity PRIMARY KEY (namespace, hour)
);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0008');
CREATE TABLE artifacts (
	seq INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	blob_seq INTEGER NOT NULL, 
	session TEXT, 
	tool_name TEXT, 
	kind TEXT NOT NULL, 
	url TEXT, 
	created_at BIGINT NOT NULL, 
	read_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	ttl BIGINT, 
	idle_ttl BIGINT, 
	pinned BOOLEAN NOT NULL, 
	engine INTEGER NOT NULL, 
	said TEXT NOT NULL, 
	labels TEXT, 
	measure TEXT NOT NULL, 
	facts TEXT NOT NULL, declared_at BIGINT, receipt TEXT, 
	CONSTRAINT pk_artifacts PRIMARY KEY (seq), 
	CONSTRAINT fk_artifacts_blob_seq FOREIGN KEY(blob_seq) REFERENCES blobs (seq)
);
INSERT INTO "artifacts" VALUES(1,'acme',844646290626490585,X'3585EC25E30B111D22D18B79EC4917175D778C9547DD07B64D4BEDA6A89F4C54',1,'s',NULL,'text',NULL,1709294400000000,1709294400000000,1709298000000000,3600,NULL,0,1,'{"tool_call_id":"1","session":"s","title":"Über"}','["a","b"]','{"size":8,"lines":2,"chars":8,"tokens":{"count":2,"exact":true,"encoding":"o200k_base"},"sha256":"w/nIwoOisfLxiW8noBy+PN3Aydk/dS5GOQNaD1s29ug=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}',NULL,NULL);
INSERT INTO "artifacts" VALUES(2,'acme',938035916176954941,X'253C6A746A3C8A450BE445DF392930039D21A1B04817FF9DE6525B614E5C37EE',1,NULL,NULL,'text','https://example.org/?a=1',1709294400000000,1709294400000000,1709295000000000,NULL,600,0,1,'{"tool_call_id":"2","url":"https://example.org/?a=1"}',NULL,'{"size":8,"lines":2,"chars":8,"tokens":{"count":2,"exact":true,"encoding":"o200k_base"},"sha256":"w/nIwoOisfLxiW8noBy+PN3Aydk/dS5GOQNaD1s29ug=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}',NULL,NULL);
INSERT INTO "artifacts" VALUES(3,'acme',971439841517920682,X'13F6AED852355C2A6C9DD53E999D6125B50CE4272190F82E76041B1D22A81955',2,NULL,NULL,'text',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,1,1,'{"tool_call_id":"3"}',NULL,'{"size":4,"lines":0,"chars":4,"tokens":{"count":1,"exact":true,"encoding":"o200k_base"},"sha256":"O5w1jzbwoxtq0+FPMJx88ZiskkboMW+c5UPVsZrAK4A=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}',NULL,NULL);
INSERT INTO "artifacts" VALUES(5,'other',646964474368483917,X'001C07484C1E8A335932828E5D241CA7C03F01E5B8B4FE078E8426AD760F4200',4,NULL,NULL,'text',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,0,1,'{"tool_call_id":"5"}',NULL,'{"size":5,"lines":0,"chars":5,"tokens":{"count":1,"exact":true,"encoding":"o200k_base"},"sha256":"2SmKENGwc1g33EvYXaxkGw887yekfl1TpU8vP1svz/o=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}',NULL,NULL);
INSERT INTO "artifacts" VALUES(6,'acme',466159115131105448,X'3FAF451C72609E1F0921EA11901EE36A07F484D743FDC35AA11DEC60F35DCE0E',5,NULL,NULL,'text',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,0,1,'{"tool_call_id":"6"}',NULL,'{"size":7,"lines":0,"chars":7,"tokens":{"count":1,"exact":true,"encoding":"o200k_base"},"sha256":"FPe/9ID5wVzgOQ0WnaGiH311R/e1KIsmvO72Ye+Pxzk=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}',NULL,NULL);
INSERT INTO "artifacts" VALUES(7,'acme',507431051351041619,X'F182C6F58248851C57BB8BBA1B4ABFD559144AA35D4699464BA89F184BB7229A',7,NULL,NULL,'text',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,0,1,'{"tool_call_id":"7"}',NULL,'{"size":7,"lines":1,"chars":7,"tokens":{"count":1,"exact":true,"encoding":"o200k_base"},"sha256":"8F1rkeUIkBJaVvW+j4y3VTCEteJODini6Z3D8ayB7ZE=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}',NULL,NULL);
INSERT INTO "artifacts" VALUES(8,'acme',232451567999783478,X'3852E52F5473CB97AA08153724BB9B73EEF05D7143BCEDF4EE74C95C5A537E2A',8,NULL,NULL,'log',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,0,1,'{"tool_call_id":"8","kind":"log","command":"make\nall"}',NULL,'{"size":3,"lines":0,"chars":3,"tokens":{"count":0,"exact":true,"encoding":"o200k_base"},"sha256":"rLolUSEA+AtW/DzNFMZb5V2UgAzad1hcX0Goh+OY+b4=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"log"}',1709294400000000,'{"engine":8,"sha256":"ZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGQ=","tokens":5,"budget":600,"query":"why?","tools":false,"text":"[art_1]\nrun"}');
CREATE TABLE audit_log (
	seq INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	action TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	key_id TEXT, 
	namespace TEXT, 
	reason TEXT NOT NULL, 
	run_id TEXT, 
	artifacts BIGINT NOT NULL, 
	size BIGINT NOT NULL, 
	details TEXT NOT NULL, 
	numbers BLOB NOT NULL, 
	CONSTRAINT pk_audit_log PRIMARY KEY (seq)
);
INSERT INTO "audit_log" VALUES(1,1709294400000000,'artifact.removed','local',NULL,'acme','deleted',NULL,1,4,'{}',X'0CF6828E2D159F5C');
CREATE TABLE blobs (
	seq INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	placement TEXT NOT NULL, 
	sha256 BLOB NOT NULL, 
	digest BIGINT NOT NULL, 
	size BIGINT NOT NULL, 
	stored_size BIGINT NOT NULL, 
	frames BLOB NOT NULL, 
	dead_at BIGINT, 
	condemned_at BIGINT, 
	CONSTRAINT pk_blobs PRIMARY KEY (seq)
);
INSERT INTO "blobs" VALUES(1,'018df9e2b2007bad904bfde267d5c3ab','acme','inline',X'C3F9C8C283A2B1F2F1896F27A01CBE3CDDC0C9D93F752E4639035A0F5B36F6E8',-4325205229354962446,8,46,X'01010000020008000000000000002E0000000000000001000000B7114D931500000002000000',NULL,NULL);
INSERT INTO "blobs" VALUES(2,'018df9e2b20071f0b9a3eadb1b43329a','acme','file',X'3B9C358F36F0A31B6AD3E14F309C7CF198AC9246E8316F9CE543D5B19AC02B80',4295367033822946075,4,42,X'01010000020004000000000000002A0000000000000001000000E76796461100000000000000',NULL,NULL);
INSERT INTO "blobs" VALUES(3,'018df9e2b2007ba9ba6294ed907c57c8','acme','inline',X'283BB9DEEF02E6843ABFB538EFA1ECA70801BD8A701C3F98191E123496339247',2899115152286869124,4,42,X'01010000020004000000000000002A0000000000000001000000E76796461100000000000000',1709294400000000,NULL);
INSERT INTO "blobs" VALUES(4,'018df9e2b200786a81bd650def1b7507','other','inline',X'D9298A10D1B0735837DC4BD85DAC641B0F3CEF27A47E5D53A54F2F3F5B2FCFFA',-2798553888591940776,5,43,X'01010000020005000000000000002B00000000000000010000008900E6B81200000000000000',NULL,NULL);
INSERT INTO "blobs" VALUES(5,'018df9e2b2007eb88136b9b894d4f368','acme','inline',X'14F7BFF480F9C15CE0390D169DA1A21F7D7547F7B5288B26BCEEF661EF8FC739',1510887256862867804,7,45,X'01010000020007000000000000002D00000000000000010000004B5671F61400000000000000',NULL,NULL);
INSERT INTO "blobs" VALUES(6,'018df9e2b20074fd89350afd8aa9f7c2','acme','inline',X'362A07BBB5C74B982BED644B9F7E298837D7A3A232C964D039BB7E49EBEA825F',3902940529859971992,5,43,X'01010000020005000000000000002B0000000000000001000000EC675A001200000001000000',NULL,NULL);
INSERT INTO "blobs" VALUES(7,'018df9e2b200768cac690c24735d7608','acme','inline',X'F05D6B91E50890125A56F5BE8F8CB7553084B5E24E0E29E2E99DC3F1AC81ED91',-1126626057415782382,7,45,X'01010000020007000000000000002D00000000000000010000002E31CD4E1400000001000000',NULL,NULL);
INSERT INTO "blobs" VALUES(8,'018df9e2b200734889a0846bdc12e8ad','acme','inline',X'ACBA25512100F80B56FC3CCD14C65BE55D94800CDA77585C5F41A887E398F9BE',-6000442523141474293,3,41,X'0101000002000300000000000000290000000000000001000000C4DCB76A1000000000000000',NULL,NULL);
CREATE TABLE events (
	number BIGINT NOT NULL, 
	namespace TEXT NOT NULL, 
	session TEXT, 
	artifact BIGINT, 
	action TEXT NOT NULL, 
	key_id TEXT, 
	tokens BIGINT NOT NULL, 
	tokens_before BIGINT, 
	details TEXT NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (number)
);
CREATE TABLE holds (
	id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	session TEXT, 
	number BIGINT, 
	reason TEXT NOT NULL, 
	made_by TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	until BIGINT, 
	CONSTRAINT pk_holds PRIMARY KEY (id)
);
CREATE TABLE idempotency_keys (
	namespace TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	fingerprint BLOB NOT NULL, 
	number BIGINT NOT NULL, 
	created BOOLEAN NOT NULL, 
	expires_at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency_keys PRIMARY KEY (namespace, "key")
);
INSERT INTO "idempotency_keys" VALUES('acme','k',X'66',938035916176954941,1,2024654400000000);
CREATE TABLE inline_bytes (
	blob_seq INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	stored BLOB NOT NULL, 
	CONSTRAINT pk_inline_bytes PRIMARY KEY (blob_seq), 
	CONSTRAINT fk_inline_bytes_blob_seq FOREIGN KEY(blob_seq) REFERENCES blobs (seq) ON DELETE CASCADE
);
INSERT INTO "inline_bytes" VALUES(1,'acme',X'28B52FFD24084100006F6E650A74776F0AE6A60E405E2A4D181100000015000000080000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(3,'acme',X'28B52FFD2404210000676F6E65547FB1BB5E2A4D181100000011000000040000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(4,'other',X'28B52FFD24052900006F746865725A62E6A65E2A4D181100000012000000050000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(5,'acme',X'28B52FFD24073900003C703E7061676581A7EB205E2A4D181100000014000000070000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(6,'acme',X'28B52FFD2405290000706167650A468322C05E2A4D181100000012000000050000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(7,'acme',X'28B52FFD24073900002320706172740A841263CB5E2A4D181100000014000000070000000100000000B1EA928F');
INSERT INTO "inline_bytes" VALUES(8,'acme',X'28B52FFD240319000072756E231104F55E2A4D181100000010000000030000000100000000B1EA928F');
CREATE TABLE jobs (
	name TEXT NOT NULL, 
	paused BOOLEAN NOT NULL, 
	interval INTEGER, 
	changed_by TEXT, 
	changed_at BIGINT, 
	last_at BIGINT, 
	last_outcome TEXT, 
	last_detail TEXT, 
	CONSTRAINT pk_jobs PRIMARY KEY (name)
);
CREATE TABLE keys (
	id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	name TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	session_prefix TEXT, 
	digest BLOB NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	revoked_at BIGINT, 
	requests_per_minute BIGINT, 
	bytes_per_minute BIGINT, 
	CONSTRAINT pk_keys PRIMARY KEY (id)
);
CREATE TABLE leases (
	name TEXT NOT NULL, 
	holder TEXT NOT NULL, 
	until BIGINT NOT NULL, 
	CONSTRAINT pk_leases PRIMARY KEY (name)
);
CREATE TABLE namespaces (
	namespace TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	disabled_at BIGINT, 
	CONSTRAINT pk_namespaces PRIMARY KEY (namespace)
);
CREATE TABLE plan_parts (
	plan_id TEXT NOT NULL, 
	part INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	first_seq BIGINT NOT NULL, 
	last_seq BIGINT NOT NULL, 
	numbers BLOB NOT NULL, 
	CONSTRAINT pk_plan_parts PRIMARY KEY (plan_id, part), 
	CONSTRAINT fk_plan_parts_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id) ON DELETE CASCADE
);
CREATE TABLE plans (
	id TEXT NOT NULL, 
	digest BLOB NOT NULL, 
	namespace TEXT, 
	job TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	criteria TEXT NOT NULL, 
	summary TEXT NOT NULL, 
	until BIGINT NOT NULL, 
	CONSTRAINT pk_plans PRIMARY KEY (id)
);
CREATE TABLE policies (
	version BIGINT NOT NULL, 
	namespace TEXT NOT NULL, 
	part TEXT NOT NULL, 
	value TEXT NOT NULL, 
	policy TEXT, 
	at BIGINT NOT NULL, 
	made_by TEXT NOT NULL, 
	CONSTRAINT pk_policies PRIMARY KEY (version)
);
CREATE TABLE removed (
	seq INTEGER NOT NULL, 
	removed_at BIGINT NOT NULL, 
	reason TEXT NOT NULL, 
	run_id TEXT, 
	artifact_seq BIGINT NOT NULL, 
	namespace TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	blob_seq INTEGER NOT NULL, 
	session TEXT, 
	tool_name TEXT, 
	kind TEXT NOT NULL, 
	url TEXT, 
	created_at BIGINT NOT NULL, 
	read_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	ttl BIGINT, 
	idle_ttl BIGINT, 
	pinned BOOLEAN NOT NULL, 
	engine INTEGER NOT NULL, 
	said TEXT NOT NULL, 
	labels TEXT, 
	measure TEXT NOT NULL, 
	facts TEXT NOT NULL, declared_at BIGINT, receipt TEXT, 
	CONSTRAINT pk_removed PRIMARY KEY (seq)
);
INSERT INTO "removed" VALUES(1,1709294400000000,'deleted',NULL,4,'acme',934077519879315292,X'BB376C349B336D77B568C613DF3F464C6EC5442EDEE94020E03BEAFE2DFD5963',3,NULL,'bash','text',NULL,1709294400000000,1709294400000000,NULL,NULL,NULL,0,1,'{"tool_name":"bash","tool_call_id":"4"}',NULL,'{"size":4,"lines":0,"chars":4,"tokens":{"count":1,"exact":true,"encoding":"o200k_base"},"sha256":"KDu53u8C5oQ6v7U476HspwgBvYpwHD+YGR4SNJYzkkc=","utf8":true,"dropped":0,"dropped_at":0}','{"kind":"text"}',NULL,NULL);
CREATE TABLE removed_surveys (
	removed_seq INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	data BLOB NOT NULL, 
	CONSTRAINT pk_removed_surveys PRIMARY KEY (removed_seq), 
	CONSTRAINT fk_removed_surveys_removed_seq FOREIGN KEY(removed_seq) REFERENCES removed (seq) ON DELETE CASCADE
);
CREATE TABLE removed_views (
	removed_seq INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	blob_seq INTEGER, 
	extractor TEXT NOT NULL, 
	partial BOOLEAN NOT NULL, 
	measure TEXT NOT NULL, 
	sections BLOB NOT NULL, 
	CONSTRAINT pk_removed_views PRIMARY KEY (removed_seq, name), 
	CONSTRAINT fk_removed_views_removed_seq FOREIGN KEY(removed_seq) REFERENCES removed (seq) ON DELETE CASCADE
);
CREATE TABLE runs (
	id TEXT NOT NULL, 
	job TEXT NOT NULL, 
	namespace TEXT, 
	scope TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	key_id TEXT, 
	plan_id TEXT, 
	plan_digest BLOB, 
	parts INTEGER NOT NULL, 
	next_part INTEGER NOT NULL, 
	started_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	outcome TEXT NOT NULL, 
	planned BIGINT NOT NULL, 
	artifacts BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	items BIGINT NOT NULL, 
	busy_ms BIGINT NOT NULL, 
	oldest_overdue BIGINT NOT NULL, 
	detail TEXT NOT NULL, 
	worker TEXT, 
	lease_until BIGINT, 
	CONSTRAINT pk_runs PRIMARY KEY (id)
);
CREATE TABLE session_usage (
	namespace TEXT NOT NULL, 
	session TEXT NOT NULL, 
	artifacts BIGINT NOT NULL, 
	raw_tokens BIGINT NOT NULL, 
	given_tokens BIGINT NOT NULL, 
	reads BIGINT NOT NULL, 
	read_tokens BIGINT NOT NULL, 
	compactions BIGINT NOT NULL, 
	unsent_tokens BIGINT NOT NULL, 
	persisted_tokens BIGINT, 
	transient_tokens BIGINT, 
	since BIGINT NOT NULL, 
	at BIGINT NOT NULL, 
	batch BIGINT NOT NULL, window_tokens BIGINT, search_tokens BIGINT, search_cap BIGINT, 
	CONSTRAINT pk_session_usage PRIMARY KEY (namespace, session)
);
CREATE TABLE surveys (
	artifact_seq INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	data BLOB NOT NULL, 
	CONSTRAINT pk_surveys PRIMARY KEY (artifact_seq), 
	CONSTRAINT fk_surveys_artifact_seq FOREIGN KEY(artifact_seq) REFERENCES artifacts (seq) ON DELETE CASCADE
);
INSERT INTO "surveys" VALUES(8,'acme',X'01737572766579');
CREATE TABLE text_parts (
	segment_id BIGINT NOT NULL, 
	part INTEGER NOT NULL, 
	namespace TEXT NOT NULL, 
	postings BLOB NOT NULL, 
	CONSTRAINT pk_text_parts PRIMARY KEY (segment_id, part), 
	CONSTRAINT fk_text_parts_segment_id FOREIGN KEY(segment_id) REFERENCES text_segments (id) ON DELETE CASCADE
);
CREATE TABLE text_segments (
	id BIGINT NOT NULL, 
	namespace TEXT NOT NULL, 
	bits INTEGER NOT NULL, 
	first_seq BIGINT NOT NULL, 
	last_seq BIGINT NOT NULL, 
	documents INTEGER NOT NULL, 
	postings INTEGER NOT NULL, 
	listed BLOB NOT NULL, 
	CONSTRAINT pk_text_segments PRIMARY KEY (id)
);
CREATE TABLE tombstones (
	namespace TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	identity BLOB NOT NULL, 
	reason TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	tool_name TEXT, 
	session TEXT, 
	until BIGINT NOT NULL, 
	CONSTRAINT pk_tombstones PRIMARY KEY (namespace, number)
);
INSERT INTO "tombstones" VALUES('acme',934077519879315292,X'BB376C349B336D77B568C613DF3F464C6EC5442EDEE94020E03BEAFE2DFD5963','deleted',1709294400000000,'bash',NULL,2024654400000000);
CREATE TABLE unindexed (
	namespace TEXT NOT NULL, 
	artifact_seq BIGINT NOT NULL, 
	CONSTRAINT pk_unindexed PRIMARY KEY (namespace, artifact_seq)
)
 WITHOUT ROWID

;
INSERT INTO "unindexed" VALUES('acme',1);
INSERT INTO "unindexed" VALUES('acme',2);
INSERT INTO "unindexed" VALUES('acme',3);
INSERT INTO "unindexed" VALUES('acme',4);
INSERT INTO "unindexed" VALUES('acme',6);
INSERT INTO "unindexed" VALUES('acme',7);
INSERT INTO "unindexed" VALUES('acme',8);
INSERT INTO "unindexed" VALUES('other',5);
CREATE TABLE uploads (
	blob_id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	placement TEXT NOT NULL, 
	lease_until BIGINT NOT NULL, 
	reserved BIGINT NOT NULL, 
	CONSTRAINT pk_uploads PRIMARY KEY (blob_id)
);
CREATE TABLE usage (
	namespace TEXT NOT NULL, 
	bytes BIGINT NOT NULL, 
	artifacts BIGINT NOT NULL, 
	reserved BIGINT NOT NULL, 
	deleting_at BIGINT, 
	CONSTRAINT pk_usage PRIMARY KEY (namespace)
);
INSERT INTO "usage" VALUES('acme',262,6,0,NULL);
INSERT INTO "usage" VALUES('other',43,1,0,NULL);
CREATE TABLE views (
	artifact_seq INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	blob_seq INTEGER, 
	extractor TEXT NOT NULL, 
	partial BOOLEAN NOT NULL, 
	measure TEXT NOT NULL, 
	sections BLOB NOT NULL, 
	CONSTRAINT pk_views PRIMARY KEY (artifact_seq, name), 
	CONSTRAINT fk_views_artifact_seq FOREIGN KEY(artifact_seq) REFERENCES artifacts (seq), 
	CONSTRAINT fk_views_blob_seq FOREIGN KEY(blob_seq) REFERENCES blobs (seq)
);
INSERT INTO "views" VALUES(6,'text','acme',6,'test 1@2',0,'{"size":5,"lines":1,"chars":5,"tokens":{"count":3,"exact":false,"encoding":"o200k_base"}}',X'9299A27331ABC39C626572200020756E730100050101C0C299A27231A00200000100B468747470733A2F2F6578616D706C652E6F72672FC2');
INSERT INTO "views" VALUES(7,'text','acme',NULL,'test 1@2',1,'{"size":0,"lines":0,"chars":0,"tokens":{"count":3,"exact":false,"encoding":"o200k_base"}}',X'9299A27331ABC39C626572200020756E730100000100C0C299A27231A00200000100B468747470733A2F2F6578616D706C652E6F72672FC2');
CREATE TABLE writers (
	id TEXT NOT NULL, 
	nonce BLOB NOT NULL, 
	at BIGINT NOT NULL, 
	CONSTRAINT pk_writers PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_blobs_id ON blobs (id);
CREATE INDEX ix_blobs_digest ON blobs (digest) WHERE dead_at IS NULL;
CREATE INDEX ix_blobs_dead_at_id ON blobs (dead_at, id) WHERE dead_at IS NOT NULL;
CREATE UNIQUE INDEX uq_artifacts_namespace_number ON artifacts (namespace, number);
CREATE INDEX ix_artifacts_namespace_session_seq ON artifacts (namespace, session, seq) WHERE session IS NOT NULL;
CREATE INDEX ix_artifacts_blob_seq ON artifacts (blob_seq);
CREATE INDEX ix_artifacts_expires_at ON artifacts (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ix_artifacts_namespace_read_at_seq ON artifacts (namespace, read_at, seq);
CREATE INDEX ix_views_blob_seq ON views (blob_seq) WHERE blob_seq IS NOT NULL;
CREATE INDEX ix_uploads_lease_until ON uploads (lease_until);
CREATE INDEX ix_tombstones_until ON tombstones (until);
CREATE INDEX ix_idempotency_keys_expires_at ON idempotency_keys (expires_at);
CREATE INDEX ix_text_segments_namespace_last_seq ON text_segments (namespace, last_seq);
CREATE INDEX ix_keys_created_at_id ON keys (created_at, id);
CREATE INDEX ix_policies_namespace_part_value_version ON policies (namespace, part, value, version);
CREATE INDEX ix_holds_namespace_number_session ON holds (namespace, number, session);
CREATE INDEX ix_removed_namespace_number ON removed (namespace, number);
CREATE INDEX ix_removed_removed_at ON removed (removed_at);
CREATE INDEX ix_removed_run_id_seq ON removed (run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX ix_plans_digest ON plans (digest);
CREATE INDEX ix_runs_started_at ON runs (started_at);
CREATE INDEX ix_runs_lease_until ON runs (lease_until) WHERE outcome = 'running';
CREATE INDEX ix_session_usage_at ON session_usage (at);
CREATE INDEX ix_audit_log_at ON audit_log (at);
CREATE INDEX ix_audit_log_namespace_seq ON audit_log (namespace, seq);
CREATE INDEX ix_audit_log_run_id ON audit_log (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX ix_events_namespace_artifact_number ON events (namespace, artifact, number);
CREATE INDEX ix_events_namespace_session_number ON events (namespace, session, number);
CREATE INDEX ix_artifacts_namespace_seq_filters ON artifacts (namespace, seq, created_at, kind, tool_name);
COMMIT;
