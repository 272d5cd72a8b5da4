// Starts the real service for the tests of the TypeScript examples, and makes the credentials that they use.
//
// Input: COUNTERSIGN_BIN, the binary to test. Each service has a folder of its own, which `stop` removes.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const binary = process.env.COUNTERSIGN_BIN ?? "countersign";
const startsWithinMs = 60_000;

// A variable such as COUNTERSIGN_STORE of the person who runs the tests must not reach the service.
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("COUNTERSIGN_")));

export type Options = {
  /** URL of a PostgreSQL database; without it, the store is a file. */
  store?: string;
  /** Content of the service's configuration. */
  config?: string;
  /** Variables for the service. */
  variables?: Record<string, string>;
};

export class Service {
  url = "";
  readonly store: string;
  readonly #folder = mkdtempSync(join(tmpdir(), "countersign-example."));
  #listen = "127.0.0.1:0";
  #process: ChildProcess | undefined;
  readonly #words: string[];
  readonly #environment: NodeJS.ProcessEnv;

  /** Starts a service with this policy. */
  static async start(policy: string, options: Options = {}): Promise<Service> {
    const service = new Service(policy, options);
    await service.up();
    return service;
  }

  private constructor(policy: string, { store, config, variables }: Options) {
    // Only this account may be able to change the files, which a checkout does not guarantee.
    this.#words = ["--policy", join(this.#folder, "policy.toml")];
    copyFileSync(policy, join(this.#folder, "policy.toml"));
    if (config) {
      this.#words.push("--config", join(this.#folder, "serve.toml"));
      writeFileSync(join(this.#folder, "serve.toml"), config);
    }
    this.#environment = { ...environment, ...variables };
    this.store = store ?? join(this.#folder, "countersign.db");
  }

  /** Starts the process, at the same address as before if there was one. */
  async up(): Promise<void> {
    const child = spawn(binary, ["serve", "--listen", this.#listen, "--store", this.store, ...this.#words], {
      cwd: this.#folder,
      env: this.#environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    this.url = await address(child);
    this.#listen = new URL(this.url).host;
  }

  /** Ends the process; everything that it acknowledged is in the store. */
  async down(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  }

  async stop(): Promise<void> {
    await this.down();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  addPerson(name: string): void {
    this.#run("person", "add", name, "--in", "approvers");
  }

  /** Makes a token, for example `token("--agent", "crm", "--scope", "propose,wait")`. */
  token(...options: string[]): string {
    return this.#run("token", "create", ...options).trim();
  }

  #run(...words: string[]): string {
    const given = [...words, "--store", this.store];
    return execFileSync(binary, given, { env: environment, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  }
}

/** Resolves to the URL that the service prints when it is ready. */
function address(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let printed = "";
    const late = setTimeout(() => reject(new Error(`the service did not start: ${printed}`)), startsWithinMs);
    const ended = () => reject(new Error(`the service ended: ${printed}`));
    child.once("exit", ended);
    child.once("error", reject);
    child.stderr?.on("data", (part) => (printed += part));
    child.stdout?.on("data", (part) => {
      printed += part;
      const port = /http:\/\/localhost:(\d+)\/approvals/.exec(printed)?.[1];
      if (!port) return;
      clearTimeout(late);
      child.off("exit", ended);
      resolve(`http://127.0.0.1:${port}`);
    });
  });
}
