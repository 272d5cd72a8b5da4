// A server for both protocol generations on the official TypeScript SDK, with everything that the conformance suite
// needs: `node server.mjs FOLDER [PORT]` prints its address on the first line of standard output; `node server.mjs
// FOLDER stdio` uses standard input and output. FOLDER contains the packages.
//
// Each client that initialises gets its own session; self-contained requests are answered without one.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

import { Tasks } from './tasks.mjs';
import { offer } from './things.mjs';
import { offerTools } from './tools.mjs';

const [folder, port] = process.argv.slice(2);
const resolve = createRequire(folder + '/package.json').resolve;
const sdk = await import(pathToFileURL(resolve('@modelcontextprotocol/server')));
const { getRequestListener } = await import(pathToFileURL(resolve('@hono/node-server')));

const codec = sdk.createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });
const sessions = new Map();

function make() {
    const server = new sdk.McpServer(
        { name: 'suite', version: '1' },
        {
            capabilities: {
                tools: { listChanged: true },
                resources: { subscribe: true, listChanged: true },
                prompts: { listChanged: true },
                logging: {},
                completions: {},
                extensions: { 'io.modelcontextprotocol/tasks': {} },
            },
            requestState: { verify: codec.verify },
        },
    );
    offerTools(sdk, server, { codec, sessions, notify: () => modern.notify });
    offer(sdk, server);
    return server;
}

const modern = sdk.createMcpHandler(make, { onerror: error => console.error(error) });
const tasks = new Tasks();

/** Event store: lets a client that lost its stream resume it. */
function memory() {
    const kept = [];
    return {
        async storeEvent(stream, message) {
            kept.push({ id: `${stream}/${kept.length}`, stream, message });
            return kept.at(-1).id;
        },
        async replayEventsAfter(last, { send }) {
            const at = kept.findIndex(event => event.id === last);
            const stream = kept[at]?.stream ?? last;
            for (const event of kept.slice(at + 1)) {
                const isOfIt = event.stream === stream && Object.keys(event.message ?? {}).length > 0;
                if (isOfIt) await send(event.id, event.message);
            }
            return stream;
        },
    };
}

async function greeted(request, body) {
    const name = request.headers.get('mcp-session-id');
    const known = name && sessions.get(name);
    const refuse = (status, message) => {
        const error = { jsonrpc: '2.0', id: null, error: { code: -32000, message } };
        return Response.json(error, { status });
    };
    if (name && !known) return refuse(404, 'there is no such session');
    if (!known && !sdk.isInitializeRequest(body)) return refuse(400, 'name the session');
    const transport = known || new sdk.WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: memory(),
        retryInterval: 500,
        onsessioninitialized: id => sessions.set(id, transport),
        onsessionclosed: id => sessions.delete(id),
    });
    if (!known) await make().connect(transport);
    return transport.handleRequest(request, { parsedBody: body });
}

async function answer(request) {
    const refusal = sdk.hostHeaderValidationResponse(request, sdk.localhostAllowedHostnames())
        ?? sdk.originValidationResponse(request, sdk.localhostAllowedOrigins());
    if (refusal) return refusal;
    if (await sdk.isLegacyRequest(request)) {
        const body = request.method === 'POST' ? await request.json() : undefined;
        return greeted(request, body);
    }
    // The SDK does not support tasks of protocol version 2026-07-28. It checks such requests, and `Tasks` answers them.
    const body = await request.clone().json().catch(() => undefined);
    const about = tasks.about(request, body);
    return about ? tasks.answer(request, body, asked => modern.fetch(asked)) : modern.fetch(request);
}

if (port === 'stdio') {
    const { serveStdio } = await import(pathToFileURL(resolve('@modelcontextprotocol/server/stdio')));
    serveStdio(make);
} else {
    const listening = createServer(getRequestListener(answer)).listen(Number(port ?? 0), '127.0.0.1', () => {
        console.log(`listening at http://127.0.0.1:${listening.address().port}/mcp`);
    });
}
