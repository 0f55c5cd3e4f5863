<?php
// "/", "/{work}", "/{work}/{act}" and "/{work}/{act}/{scene}" are pages; with ".json" at the end they are JSON.
require __DIR__ . '/settings.php';

// The rows of a query.
function rows(mysqli $database, string $query, array $parameters = []): array
{
    return $database->execute_query($query, $parameters)->fetch_all(MYSQLI_ASSOC);
}

// The content of a path, or null where there is none.
function content(mysqli $database, array $parts): ?array
{
    if ($parts === []) {
        return ['title' => 'The works of Shakespeare',
            'works' => rows($database, 'SELECT slug, title, year, genre FROM work ORDER BY title')];
    }
    [$slug, $act, $scene] = $parts + [null, null, null];
    $work = rows($database, 'SELECT id, slug, title, year, genre FROM work WHERE slug = ?', [$slug])[0] ?? null;
    if ($work === null || count($parts) > 3) {
        return null;
    }
    $id = $work['id'];
    if ($act === null) {
        $scenes = rows($database, 'SELECT act, scene, place FROM scene WHERE work_id = ? ORDER BY act, scene', [$id]);
        return $work + ['scenes' => $scenes];
    }
    $query = 'SELECT act, scene, place, speaker, text FROM scene JOIN paragraph ON scene_id = scene.id
        WHERE work_id = ? AND act = ?' . ($scene === null ? '' : ' AND scene = ?') . ' ORDER BY paragraph.id';
    $paragraphs = rows($database, $query, $scene === null ? [$id, $act] : [$id, $act, $scene]);
    return $paragraphs === [] ? null : $work + ['paragraphs' => $paragraphs];
}

// A table of rows, with a link where a row has an address.
function table(array $rows, callable $address): string
{
    $html = '';
    foreach ($rows as $row) {
        $cells = array_map(fn($cell) => '<td>' . htmlspecialchars((string) $cell) . '</td>', $row);
        $link = $address($row);
        $html .= '<tr>' . implode('', $cells) . ($link === '' ? '' : "<td><a href=\"$link\">read</a></td>") . "</tr>\n";
    }
    return "<table>\n$html</table>\n";
}

function page(array $content): string
{
    $title = htmlspecialchars($content['title']);
    $body = match (true) {
        isset($content['works']) => table($content['works'], fn($row) => '/' . $row['slug']),
        isset($content['scenes']) =>
            table($content['scenes'], fn($row) => "/{$content['slug']}/{$row['act']}/{$row['scene']}"),
        default => table($content['paragraphs'], fn($row) => ''),
    };
    return "<!doctype html>\n<html>\n<head><title>$title</title></head>\n<body>\n<h1>$title</h1>\n$body</body>\n</html>\n";
}

$path = rawurldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH) ?: '/');
$isJson = str_ends_with($path, '.json');
$path = trim($isJson ? substr($path, 0, -5) : $path, '/');
try {
    $content = content(database(), $path === '' ? [] : explode('/', $path));
    http_response_code($content === null ? 404 : 200);
} catch (mysqli_sql_exception) {
    $content = null;
    http_response_code(500);
}
$content ??= ['title' => 'Nothing here', 'works' => []];
header('Content-Type: ' . ($isJson ? 'application/json' : 'text/html; charset=utf-8'));
echo $isJson ? json_encode($content, JSON_UNESCAPED_UNICODE) : page($content);
