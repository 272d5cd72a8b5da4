<?php
declare(strict_types=1);

/** An answer of the service that says no; nothing was done. */
final class Refused extends DomainException
{
    public function __construct(public readonly string $reason, string $message)
    {
        parent::__construct("$reason: $message");
    }
}

/**
 * Actions that wait for a person, kept by Countersign.
 *
 * A call is registered with its exact arguments; a button with a short label decides it; the same bytes then run, once.
 * The model is not asked again in between. There is no state here: every request may be served by another process.
 */
final class PendingActions
{
    private const TOOL = 'carpeta/delete-potreros';

    /** What a person is told about a button that no longer decides anything, by the code of the error. */
    private const WORDS = [
        'already_decided' => 'Eso ya está decidido.',
        'expired' => 'Ya pasó el tiempo para decidir. No se borró nada.',
        'not_allowed' => 'No podés decidir esto.',
    ];

    /**
     * @param string $agentToken `--agent menta --scope propose,wait`
     * @param string $chatToken  `--name menta-chat --scope reply`
     * @param string $hostToken  `--name menta-host --scope read,execute`
     */
    public function __construct(
        private string $url,
        private string $agentToken,
        private string $chatToken,
        private string $hostToken,
        private Potreros $potreros,
    ) {
    }

    /**
     * Registers a call, and returns what the page shows: the card and two buttons. The page keeps each button's `value`
     * out of sight and sends it back when the button is pressed.
     */
    public function propose(string $session, array $arguments, int $ttlMs = 300_000): array
    {
        $approval = $this->request($this->agentToken, '/v1/approvals', [
            'toolName' => self::TOOL,
            'toolArguments' => $arguments,
            'channel' => $session,
            'session' => $session,
            'ttlMs' => $ttlMs,
        ]);
        $card = $this->request($this->chatToken, $this->channel($session) . '/pending?language=es')['pending'];
        $shown = ['messageId' => $approval['id'], 'digest' => $card['digest'], 'language' => 'es'];
        $this->request($this->chatToken, $this->channel($session) . '/shown', $shown);
        return [
            'action' => $approval['id'],
            'text' => $card['text'],
            'buttons' => [
                ['label' => $card['yes'], 'value' => $card['approve']],
                ['label' => $card['no'], 'value' => $card['deny']],
            ],
        ];
    }

    /** Decides with a button, runs what was approved, and returns what to tell the person. */
    public function press(string $session, string $person, string $value): string
    {
        try {
            $press = ['payload' => $value, 'sender' => $person, 'language' => 'es'];
            $heard = $this->request($this->chatToken, $this->channel($session) . '/buttons', $press);
        } catch (Refused $refused) {
            return self::WORDS[$refused->reason] ?? throw $refused;
        }
        if ($heard['happened'] !== 'approved') {
            return $heard['say'];
        }
        return implode("\n", array_map($this->run(...), $heard['approval']['calls']));
    }

    /** Runs an approved call. `start` gives its bytes out once; every later request for them is refused. */
    public function run(array $call): string
    {
        $started = $this->request($this->hostToken, "/v1/calls/{$call['id']}/start", []);
        $ended = $this->potreros->delete($call['id'], hex2bin($started['argumentsHex']));
        $this->request($this->hostToken, "/v1/calls/{$call['id']}/finish", ['permit' => $started['permit']] + $ended);
        return $ended['outcome'] === 'succeeded' ? "¡Listo! {$call['summary']}" : "No se pudo: {$ended['result']}";
    }

    /** Returns the approval with its history: proposed, decided, started, ended. */
    public function inspect(string $action): array
    {
        return $this->request($this->hostToken, "/v1/approvals/$action?events=true");
    }

    /** Waits until the action is decided or has expired, for at most ten seconds. */
    public function wait(string $action): array
    {
        return $this->request($this->agentToken, "/v1/approvals/$action?wait=10s");
    }

    /** Returns the messages that tell the model what became of its calls: one result for each call. */
    public function transcript(string $session): array
    {
        return $this->request($this->agentToken, $this->channel($session) . '/transcript');
    }

    private function channel(string $session): string
    {
        return '/v1/channels/' . rawurlencode($session);
    }

    private function request(string $token, string $path, ?array $body = null): array
    {
        $context = stream_context_create(['http' => [
            'method' => $body === null ? 'GET' : 'POST',
            'header' => ["Authorization: Bearer $token", 'Content-Type: application/json'],
            'content' => $body === null ? '' : json_encode((object) $body, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE),
            'ignore_errors' => true,
            'follow_location' => 0,
            'timeout' => 30,
        ]]);
        $text = @file_get_contents($this->url . $path, false, $context);
        if ($text === false) {
            throw new RuntimeException('the approval service cannot be reached');
        }
        $answer = json_decode($text, true, flags: JSON_THROW_ON_ERROR);
        if (isset($answer['error'])) {
            throw new Refused($answer['error']['code'], $answer['error']['message']);
        }
        return $answer;
    }
}
