<?php
// Fills the shop: 1,000 products of 25 kinds, with ten reviews each, and 500 carts; always the same.
require __DIR__ . '/settings.php';

const WORDS = ['light', 'round', 'plain', 'steel', 'oak', 'small', 'large', 'blue', 'green', 'soft', 'strong', 'quiet'];
const THINGS = ['lamp', 'chair', 'table', 'shelf', 'kettle', 'clock', 'box', 'bowl', 'rug', 'stool', 'mirror', 'vase'];

function words(int $seed, int $count): string
{
    $word = fn($place) => WORDS[($seed * 7 + $place * 5 + intdiv($seed, $place + 3)) % count(WORDS)];
    return implode(' ', array_map($word, range(0, $count - 1)));
}

// Writes rows, five hundred at a time.
function insert(mysqli $database, string $table, array $rows): void
{
    $quoted = fn($cell) => is_int($cell) ? $cell : "'" . $database->real_escape_string($cell) . "'";
    foreach (array_chunk($rows, 500) as $chunk) {
        $values = array_map(fn($row) => '(' . implode(', ', array_map($quoted, $row)) . ')', $chunk);
        $database->query("INSERT INTO $table VALUES " . implode(', ', $values));
    }
}

$database = database();
$database->query('CREATE TABLE product (id INT PRIMARY KEY, name VARCHAR(80), kind INT, price INT, stock INT, text TEXT,
    KEY (kind, price))');
$database->query('CREATE TABLE review (id INT PRIMARY KEY, product_id INT, stars INT, text TEXT, KEY (product_id))');
$database->query('CREATE TABLE cart (visitor CHAR(32), product_id INT, count INT, KEY (visitor))');
$database->query('CREATE TABLE visit (id INT PRIMARY KEY AUTO_INCREMENT, visitor CHAR(32), product_id INT)');
$products = $reviews = $carts = [];
foreach (range(1, 1000) as $id) {
    $name = ucfirst(words($id, 2)) . ' ' . THINGS[$id % count(THINGS)] . " $id";
    $products[] = [$id, $name, $id % 25, 500 + $id * 37 % 20000, 1 + $id * 11 % 90, ucfirst(words($id, 120)) . '.'];
    foreach (range(1, 10) as $number) {
        $reviews[] = [count($reviews) + 1, $id, 1 + ($id + $number) % 5, ucfirst(words($id + $number, 25)) . '.'];
    }
}
foreach (range(1, 500) as $visitor) {
    $carts[] = [md5("$visitor"), 1 + $visitor % 1000, 1 + $visitor % 3];
}
$database->begin_transaction();
insert($database, 'product', $products);
insert($database, 'review', $reviews);
insert($database, 'cart', $carts);
$database->commit();
