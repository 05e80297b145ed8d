#!/usr/bin/env bash
# sqlite3 with a database in memory: rows from a recursive query, indices, joins, windows, updates.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

rows=$(size 60000 400000)
exec sqlite3 -batch -bail :memory: <<SQL
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INT, day INT, cents INT, note TEXT);
WITH RECURSIVE n(i, r) AS (
    SELECT 1, 12345 UNION ALL SELECT i + 1, (r * 1103515245 + 12345) % 2147483648 FROM n WHERE i < $rows)
INSERT INTO orders
    SELECT i, r / 7 % ($rows / 20), r / 11 % 1000, r % 100000, printf('%08x-%d-%s', r, i, hex(r * i)) FROM n;
CREATE TABLE customers AS
    SELECT DISTINCT customer AS id, 'name ' || (customer * 7919 % 100003) AS name FROM orders;
CREATE INDEX by_customer ON orders(customer);
CREATE INDEX by_day ON orders(day, cents);
CREATE INDEX by_note ON orders(note);
ANALYZE;
SELECT 'counts', count(*), sum(cents), min(note), max(note) FROM orders;
SELECT 'day', day, count(*), sum(cents) FROM orders GROUP BY day ORDER BY sum(cents) DESC, day LIMIT 40;
SELECT 'best', c.name, sum(o.cents) AS total FROM orders o JOIN customers c ON c.id = o.customer
    GROUP BY c.id ORDER BY total DESC, c.id LIMIT 40;
SELECT 'window', id, day, cents, running FROM (
    SELECT id, day, cents, sum(cents) OVER (PARTITION BY day ORDER BY id) AS running FROM orders)
    WHERE id % ($rows / 50) = 0 ORDER BY id;
SELECT 'pairs', count(*) FROM orders a JOIN orders b ON a.customer = b.customer AND a.day < b.day WHERE a.id % 8 = 0;
UPDATE orders SET cents = cents + day, note = note || '!' WHERE customer % 3 = 0;
DELETE FROM orders WHERE day % 17 = 5;
SELECT 'after', count(*), sum(cents), min(note), max(note) FROM orders;
SELECT 'notes', note FROM orders WHERE note LIKE '0%' ORDER BY note LIMIT 40;
VACUUM;
PRAGMA integrity_check;
SELECT 'pages', page_count FROM pragma_page_count();
SQL
