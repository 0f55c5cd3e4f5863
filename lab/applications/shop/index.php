<?php
// "/product/{number}", and pages of the catalogue that are no files.
require __DIR__ . '/settings.php';

const PAGE_BYTES = 10240;

function rows(mysqli $database, string $query, array $parameters): array
{
    return $database->execute_query($query, $parameters)->fetch_all(MYSQLI_ASSOC);
}

function euros(int $cents): string
{
    return number_format($cents / 100, 2) . ' EUR';
}

// An item a line, escaped.
function listed(array $rows, callable $words): string
{
    return '<ul>' . implode('', array_map(fn($row) => '<li>' . htmlspecialchars($words($row)) . '</li>', $rows)) . '</ul>';
}

function product_page(mysqli $database, int $number, string $visitor): ?string
{
    $product = rows($database, 'SELECT id, name, kind, price, stock, text FROM product WHERE id = ?', [$number])[0] ?? null;
    if ($product === null) {
        return null;
    }
    $kin = rows($database, 'SELECT name, price FROM product WHERE kind = ? AND id <> ? AND stock > 0
        ORDER BY price LIMIT 12', [$product['kind'], $number]);
    $reviews = rows($database, 'SELECT stars, text FROM review WHERE product_id = ? ORDER BY id DESC LIMIT 10', [$number]);
    $cart = rows($database, 'SELECT name, price, count FROM cart JOIN product ON product_id = product.id
        WHERE visitor = ?', [$visitor]);
    $database->execute_query('INSERT INTO visit (visitor, product_id) VALUES (?, ?)', [$visitor, $number]);
    $name = htmlspecialchars($product['name']);
    $text = htmlspecialchars($product['text']);
    $total = array_sum(array_map(fn($row) => $row['price'] * $row['count'], $cart));
    return "<!doctype html>\n<html>\n<head><title>$name</title></head>\n<body>\n<h1>$name</h1>\n<p>" . euros($product['price'])
        . ", {$product['stock']} in stock</p>\n<p>$text</p>\n<h2>Similar</h2>\n"
        . listed($kin, fn($row) => $row['name'] . ', ' . euros($row['price']))
        . "\n<h2>Reviews</h2>\n" . listed($reviews, fn($row) => str_repeat('*', $row['stars']) . ' ' . $row['text'])
        . "\n<h2>Your cart: " . euros($total) . "</h2>\n"
        . listed($cart, fn($row) => $row['count'] . ' x ' . $row['name']) . "\n</body>\n</html>\n";
}

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$visitor = $_COOKIE['visitor'] ?? bin2hex(random_bytes(16));
$number = preg_match('#^/(?:product/|catalogue/)([0-9]+)(?:\.html)?$#', (string) $path, $match) ? (int) $match[1] + 1 : 0;
try {
    $page = product_page(database(), $number, substr($visitor, 0, 32));
    http_response_code($page === null ? 404 : 200);
} catch (mysqli_sql_exception) {
    $page = null;
    http_response_code(500);
}
// All pages have the length of the catalogue's files, so that a wrong answer shows.
$page = $page === null ? null : str_pad(substr($page, 0, PAGE_BYTES), PAGE_BYTES);
header('Content-Type: text/html');
header('Cache-Control: no-store');
setcookie('visitor', $visitor, ['path' => '/', 'httponly' => true]);
echo $page ?? "<!doctype html>\n<title>Nothing here</title>\n";
