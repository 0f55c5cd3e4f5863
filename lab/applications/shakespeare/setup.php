<?php
// Fills the database: 43 works in 945 parts with about 35,000 paragraphs and 880,000 words, always the same.
require __DIR__ . '/settings.php';

const WORKS = [
    ["All's Well That Ends Well", 1602, 'Comedy'], ['Antony and Cleopatra', 1606, 'Tragedy'],
    ['As You Like It', 1599, 'Comedy'], ['The Comedy of Errors', 1589, 'Comedy'], ['Coriolanus', 1607, 'Tragedy'],
    ['Cymbeline', 1609, 'History'], ['Hamlet', 1600, 'Tragedy'], ['Henry IV, Part I', 1597, 'History'],
    ['Henry IV, Part II', 1597, 'History'], ['Henry V', 1598, 'History'], ['Henry VI, Part I', 1591, 'History'],
    ['Henry VI, Part II', 1590, 'History'], ['Henry VI, Part III', 1590, 'History'], ['Henry VIII', 1612, 'History'],
    ['Julius Caesar', 1599, 'Tragedy'], ['King John', 1596, 'History'], ['King Lear', 1605, 'Tragedy'],
    ["A Lover's Complaint", 1609, 'Poem'], ["Love's Labour's Lost", 1594, 'Comedy'], ['Macbeth', 1605, 'Tragedy'],
    ['Measure for Measure', 1604, 'Comedy'], ['The Merchant of Venice', 1596, 'Comedy'],
    ['The Merry Wives of Windsor', 1600, 'Comedy'], ["A Midsummer Night's Dream", 1595, 'Comedy'],
    ['Much Ado about Nothing', 1598, 'Comedy'], ['Othello', 1604, 'Tragedy'], ['The Passionate Pilgrim', 1598, 'Poem'],
    ['Pericles', 1608, 'History'], ['The Phoenix and the Turtle', 1601, 'Poem'], ['The Rape of Lucrece', 1594, 'Poem'],
    ['Richard II', 1595, 'History'], ['Richard III', 1592, 'History'], ['Romeo and Juliet', 1594, 'Tragedy'],
    ['Sonnets', 1609, 'Sonnet'], ['The Taming of the Shrew', 1593, 'Comedy'], ['The Tempest', 1611, 'Comedy'],
    ['Timon of Athens', 1607, 'Tragedy'], ['Titus Andronicus', 1593, 'Tragedy'],
    ['Troilus and Cressida', 1601, 'Tragedy'], ['Twelfth Night', 1599, 'Comedy'],
    ['The Two Gentlemen of Verona', 1594, 'Comedy'], ['Venus and Adonis', 1592, 'Poem'],
    ["The Winter's Tale", 1610, 'Comedy'],
];
const SYLLABLES = ['an', 'be', 'cor', 'dal', 'el', 'for', 'gen', 'har', 'in', 'lo', 'mer', 'no', 'or', 'pal', 'ro',
    'sen', 'tha', 'un', 'ver', 'wil'];

// A number below another one, from a sequence that is the same in every run.
function below(int $bound): int
{
    static $state = 1616;
    $state = ($state * 1103515245 + 12345) & 0x7fffffff;
    return intdiv($state, 65536) % $bound;
}

function word(): string
{
    return implode('', array_map(fn() => SYLLABLES[below(count(SYLLABLES))], range(0, below(3))));
}

function words(int $count): string
{
    return ucfirst(implode(' ', array_map(fn() => word(), range(1, $count)))) . '.';
}

// Acts and scenes: 37 plays of five acts with four scenes each, 154 sonnets, 51 parts of the five other poems.
function parts(string $genre, string $title): array
{
    return match ($genre) {
        'Sonnet' => array_map(fn($number) => [1, $number], range(1, 154)),
        'Poem' => array_map(fn($number) => [1, $number], range(1, $title === 'The Passionate Pilgrim' ? 11 : 10)),
        default => array_merge(...array_map(fn($act) => array_map(fn($scene) => [$act, $scene], range(1, 4)), range(1, 5))),
    };
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
$database->query('CREATE TABLE work (id INT PRIMARY KEY, slug VARCHAR(40) UNIQUE, title VARCHAR(40), year INT,
    genre VARCHAR(10))');
$database->query('CREATE TABLE scene (id INT PRIMARY KEY, work_id INT, act INT, scene INT, place VARCHAR(60),
    KEY (work_id, act, scene))');
$database->query('CREATE TABLE paragraph (id INT PRIMARY KEY, scene_id INT, speaker VARCHAR(40), text TEXT,
    KEY (scene_id))');
$works = $scenes = $paragraphs = [];
foreach (WORKS as $index => [$title, $year, $genre]) {
    $slug = trim(preg_replace('/[^a-z0-9]+/', '-', strtolower($title)), '-');
    $works[] = [$index + 1, $slug, $title, $year, $genre];
    foreach (parts($genre, $title) as [$act, $scene]) {
        $scenes[] = [count($scenes) + 1, $index + 1, $act, $scene, words(3)];
        $count = $genre === 'Sonnet' || $genre === 'Poem' ? 14 : 44;
        foreach (range(1, $count) as $number) {
            $paragraphs[] = [count($paragraphs) + 1, count($scenes), ucfirst(word()), words(8 + below(34))];
        }
    }
}
$database->begin_transaction();
insert($database, 'work', $works);
insert($database, 'scene', $scenes);
insert($database, 'paragraph', $paragraphs);
$database->commit();
