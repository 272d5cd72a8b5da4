<?php
declare(strict_types=1);

/**
 * The ranch's paddocks, in one file.
 *
 * Input: the exact bytes of a call's arguments. Output: the outcome that is reported to Countersign.
 * Not here: who may delete. A person has decided that before `delete` is called.
 */
final class Potreros
{
    public function __construct(private string $file)
    {
    }

    /** @return list<array{id: int, nombre: string}> */
    public function startingWith(string $prefix): array
    {
        $found = array_filter($this->read()['potreros'], fn ($potrero) => str_starts_with($potrero['nombre'], $prefix));
        return array_values($found);
    }

    /**
     * Deletes all named paddocks, or none of them. The call's id is recorded with the change, so that one call never
     * deletes twice.
     *
     * @return array{outcome: string, result: mixed}
     */
    public function delete(string $call, string $arguments): array
    {
        $lock = fopen("$this->file.lock", 'c');
        flock($lock, LOCK_EX);
        try {
            $data = $this->read();
            $given = json_decode($arguments, true, flags: JSON_THROW_ON_ERROR);
            $names = array_column($data['potreros'], 'nombre', 'id');
            $wanted = array_combine($given['ids'], $given['nombres']);
            if (isset($data['ran'][$call]) || array_diff_assoc($wanted, $names) !== []) {
                return ['outcome' => 'failed', 'result' => 'estos potreros ya no son los de la tarjeta'];
            }
            $kept = array_filter($data['potreros'], fn ($potrero) => !isset($wanted[$potrero['id']]));
            $data['potreros'] = array_values($kept);
            $data['ran'][$call] = $arguments;
            $this->write($data);
            return ['outcome' => 'succeeded', 'result' => ['borrados' => count($wanted)]];
        } catch (Throwable $error) {
            // The file is replaced as a whole, and last: nothing was deleted.
            return ['outcome' => 'failed', 'result' => $error->getMessage()];
        } finally {
            fclose($lock);
        }
    }

    /** @return array{potreros: list<array>, ran: array<string, string>} */
    public function read(): array
    {
        return json_decode(file_get_contents($this->file), true, flags: JSON_THROW_ON_ERROR);
    }

    public function write(array $data): void
    {
        file_put_contents("$this->file.new", json_encode($data, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE));
        rename("$this->file.new", $this->file);
    }
}
