<?php
// Runs the example against the real service, and looks at what was deleted.
declare(strict_types=1);

require __DIR__ . '/potreros.php';
require __DIR__ . '/pending_actions.php';

error_reporting(E_ALL);
set_error_handler(fn ($level, $message) => error_reporting() & $level ? throw new ErrorException($message) : false);

$tests = [
    '"Sí, borrar" deletes the thirteen paddocks of the card, once' => function (): void {
        $arguments = seed();
        $asked = menta()->propose('s1', all_padrones());
        check(str_contains($asked['text'], 'Borrar 13 potreros: Padrón 1401, Padrón 1402'), $asked['text']);
        same(['Sí, borrar', 'No borrar'], array_column($asked['buttons'], 'label'));
        same([], ran());

        $yes = $asked['buttons'][0]['value'];
        $told = menta()->press('s1', 'ana', $yes);
        check(str_starts_with($told, '¡Listo! Borrar 13 potreros: Padrón 1401'), $told);
        same([$arguments], ran());
        same(['La Laguna', 'El Bajo', 'Antiguo Padrón'], array_column(potreros()->read()['potreros'], 'nombre'));

        // A second press and a second start run nothing.
        same('Eso ya está decidido.', menta()->press('s1', 'ana', $yes));
        refused('wrong_state', fn () => menta()->run(menta()->inspect($asked['action'])['calls'][0]));
        same(1, count(ran()));
        same(['proposed', 'approved', 'started', 'succeeded', 'decision_refused'], kinds(menta()->inspect($asked['action'])));
        same(['succeeded'], told_to_the_model('s1'));
    },

    '"No borrar" deletes nothing' => function (): void {
        seed();
        $asked = menta()->propose('s2', all_padrones());
        same('Cancelado.', menta()->press('s2', 'ana', $asked['buttons'][1]['value']));
        same('Eso ya está decidido.', menta()->press('s2', 'ana', $asked['buttons'][0]['value']));
        refused('wrong_state', fn () => menta()->run(menta()->inspect($asked['action'])['calls'][0]));
        same([], ran());
        same(['denied'], told_to_the_model('s2'));
    },

    'an expired action cannot run' => function (): void {
        seed();
        $asked = menta()->propose('s3', all_padrones(), ttlMs: 1000);
        same('expired', menta()->wait($asked['action'])['status']);
        $told = menta()->press('s3', 'ana', $asked['buttons'][0]['value']);
        same('Ya pasó el tiempo para decidir. No se borró nada.', $told);
        refused('wrong_state', fn () => menta()->run(menta()->inspect($asked['action'])['calls'][0]));
        same([], ran());
        same(['expired'], told_to_the_model('s3'));
    },

    'nobody but an approver decides, and not from another session' => function (): void {
        seed();
        $asked = menta()->propose('s4', all_padrones());
        $yes = $asked['buttons'][0]['value'];
        same('No podés decidir esto.', menta()->press('s4', 'stranger', $yes));
        refused('not_found', fn () => menta()->press('s1', 'ana', $yes));
        same('pending', menta()->inspect($asked['action'])['status']);
        same([], ran());
    },

    'paddocks that changed since the card are not deleted' => function (): void {
        seed();
        $asked = menta()->propose('s5', all_padrones());
        $data = potreros()->read();
        $data['potreros'][1]['nombre'] = 'La Laguna Nueva';
        potreros()->write($data);
        $told = menta()->press('s5', 'ana', $asked['buttons'][0]['value']);
        same('No se pudo: estos potreros ya no son los de la tarjeta', $told);
        same([], ran());
        same(['failed'], told_to_the_model('s5'));
    },

    'arguments that contradict each other delete nothing' => function (): void {
        seed();
        $asked = menta()->propose('s6', ['ids' => [102, 103], 'nombres' => ['Padrón 1401']]);
        menta()->press('s6', 'ana', $asked['buttons'][0]['value']);
        same([], ran());
        same(['failed'], told_to_the_model('s6'));
    },
];

// ---- the ranch ----

/** Writes sixteen paddocks, of which thirteen begin with "Padrón", and returns the arguments that delete these. */
function seed(): string
{
    $potreros = [['id' => 101, 'nombre' => 'La Laguna']];
    for ($number = 1401; $number <= 1413; $number++) {
        $potreros[] = ['id' => $number - 1299, 'nombre' => "Padrón $number"];
    }
    array_push($potreros, ['id' => 120, 'nombre' => 'El Bajo'], ['id' => 121, 'nombre' => 'Antiguo Padrón']);
    potreros()->write(['potreros' => $potreros, 'ran' => []]);
    return '{"ids":[102,103,104,105,106,107,108,109,110,111,112,113,114],"nombres":["Padrón 1401","Padrón 1402","Padrón 1403",'
        . '"Padrón 1404","Padrón 1405","Padrón 1406","Padrón 1407","Padrón 1408","Padrón 1409","Padrón 1410","Padrón 1411",'
        . '"Padrón 1412","Padrón 1413"]}';
}

function potreros(): Potreros
{
    return new Potreros($GLOBALS['folder'] . '/potreros.json');
}

/** The arguments, as the agent finds them: exact ids, and the names that a person can check. */
function all_padrones(): array
{
    $found = potreros()->startingWith('Padrón');
    return ['ids' => array_column($found, 'id'), 'nombres' => array_column($found, 'nombre')];
}

/** @return list<string> the exact arguments of every deletion that ran */
function ran(): array
{
    return array_values(potreros()->read()['ran']);
}

/** A new object for each request, as with PHP behind a web server. */
function menta(): PendingActions
{
    return new PendingActions($GLOBALS['url'], ...$GLOBALS['tokens'], potreros: potreros());
}

/** @return list<string> the kinds of an approval's events */
function kinds(array $approval): array
{
    return array_map(fn ($event) => $event['event']['what'] ?? json_encode($event), $approval['events']);
}

/** @return list<string> the status in each tool result that the model gets */
function told_to_the_model(string $session): array
{
    $results = array_filter(menta()->transcript($session), fn ($message) => $message['role'] === 'user');
    $status = fn ($message) => json_decode($message['content'][0]['content'], true)['status'];
    return array_values(array_map($status, $results));
}

// ---- checks ----

function check(bool $isTrue, string $message): void
{
    if (!$isTrue) {
        throw new UnexpectedValueException($message);
    }
}

function same(mixed $expected, mixed $actual): void
{
    $write = fn ($value) => json_encode($value, JSON_UNESCAPED_UNICODE | JSON_PRETTY_PRINT);
    check($expected === $actual, "expected {$write($expected)}, got {$write($actual)}");
}

function refused(string $code, callable $act): void
{
    try {
        $act();
    } catch (Refused $refused) {
        same($code, $refused->reason);
        return;
    }
    throw new UnexpectedValueException('was not refused');
}

// ---- the service ----

/** Runs a command of the binary on the store and returns what it prints. */
function countersign(string ...$words): string
{
    $command = [getenv('COUNTERSIGN_BIN'), ...$words, '--store', $GLOBALS['folder'] . '/countersign.db'];
    $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']], $pipes, null, environment());
    $printed = trim(stream_get_contents($pipes[1]));
    check(proc_close($process) === 0, 'failed: countersign ' . implode(' ', $words));
    return $printed;
}

/** Variables such as COUNTERSIGN_STORE of the person who runs the tests must not reach the service. */
function environment(): array
{
    return array_filter(getenv(), fn ($name) => !str_starts_with($name, 'COUNTERSIGN_'), ARRAY_FILTER_USE_KEY);
}

$folder = sys_get_temp_dir() . '/countersign-php-' . bin2hex(random_bytes(8));
mkdir($folder, 0700);
copy(__DIR__ . '/policy.toml', "$folder/policy.toml");
$serve = [getenv('COUNTERSIGN_BIN'), 'serve', '--listen', '127.0.0.1:0', '--policy', "$folder/policy.toml", '--store', "$folder/countersign.db"];
$output = [['file', '/dev/null', 'r'], ['pipe', 'w'], ['file', "$folder/service.log", 'w']];
$service = proc_open($serve, $output, $pipes, $folder, environment());
$failures = 0;
try {
    // Ends with the service, if that does not start.
    while (($line = fgets($pipes[1])) !== false && !preg_match('~http://localhost:(\d+)/approvals~', $line, $found));
    check(isset($found[1]), 'the service did not start: ' . file_get_contents("$folder/service.log"));
    $url = "http://127.0.0.1:$found[1]";
    countersign('person', 'add', 'ana', '--in', 'approvers');
    $tokens = [
        countersign('token', 'create', '--agent', 'menta', '--scope', 'propose,wait'),
        countersign('token', 'create', '--name', 'menta-chat', '--scope', 'reply'),
        countersign('token', 'create', '--name', 'menta-host', '--scope', 'read,execute'),
    ];
    foreach ($tests as $name => $run) {
        try {
            $run();
            echo "✔ $name\n";
        } catch (Throwable $error) {
            $failures++;
            echo "✖ $name\n$error\n";
        }
    }
} finally {
    proc_terminate($service);
    proc_close($service);
    array_map('unlink', glob("$folder/*"));
    rmdir($folder);
}
exit($failures === 0 ? 0 : 1);
