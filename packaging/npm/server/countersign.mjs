#!/usr/bin/env node
// Runs the `countersign` binary of this platform's package. Signals and the exit code pass through.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const name = `@countersign/server-${process.platform}-${process.arch}`;
let binary;
try {
  binary = createRequire(import.meta.url).resolve(`${name}/countersign`);
} catch {
  console.error(`error: there is no countersign binary for ${process.platform} on ${process.arch}`);
  console.error(`hint: on Linux, install again without --omit=optional (${name} is missing); elsewhere, use the container image`);
  process.exit(1);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    // A terminal sends Ctrl-C to both processes, and a second one would stop the service without waiting for its calls.
    const hasArrived = signal === "SIGINT" && process.stdin.isTTY;
    if (!hasArrived) child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`error: cannot run ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code ?? 1);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
