// A client on the TypeScript SDK: node client.mjs FOLDER MODE COMMAND CALLS. Prints one JSON line per answer.
// MODE is `v1` for version 1 of the SDK, or a mode of its version 2: `legacy` or `auto`. The suffix `+yes` accepts
// elicitations after one and a half seconds; `+cats` accepts only those about cats; `+tasks` calls tools as tasks. The
// call `list tools` lists the tools with their descriptions.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, wanted, commandText, callsText] = process.argv.slice(2);
const [mode, ...also] = wanted.split('+');
const yes = also.includes('yes') || also.includes('cats');
const [command, ...args] = JSON.parse(commandText);
const resolve = createRequire(folder + '/package.json').resolve;
const load = async name => import(pathToFileURL(resolve(name)));
const say = what => console.log(JSON.stringify(what));

const answer = async request => {
    say({ asked: request.params.message });
    if (also.includes('cats') && !request.params.message.includes('cats')) return { action: 'cancel' };
    await new Promise(done => setTimeout(done, 1500));
    return { action: 'accept', content: { decision: 'allow' } };
};

const capabilities = yes ? { elicitation: {} } : {};
let client, transport;
if (mode === 'v1') {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
    const { ElicitRequestSchema } = await load('@modelcontextprotocol/sdk/types.js');
    client = new Client({ name: 'ts-v1', version: '1' }, { capabilities });
    if (yes) client.setRequestHandler(ElicitRequestSchema, answer);
    transport = new StdioClientTransport({ command, args, stderr: 'ignore' });
} else {
    const { Client } = await load('@modelcontextprotocol/client');
    const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
    client = new Client({ name: 'ts-v2', version: '1' }, { capabilities, versionNegotiation: { mode } });
    if (yes) client.setRequestHandler('elicitation/create', answer);
    transport = new StdioClientTransport({ command, args, stderr: 'ignore' });
}
await client.connect(transport);
try {
    const { tools } = await client.listTools();
    say({ tools: tools.map(tool => tool.name) });
} catch (error) {
    say({ tools: [], error: String(error) });
}
for (const [name, input] of JSON.parse(callsText)) {
    try {
        if (name === 'list tools') {
            const { tools } = await client.listTools();
            say({ described: tools.map(tool => [tool.name, tool.description]) });
            continue;
        }
        if (also.includes('tasks')) {
            for await (const news of client.experimental.tasks.callToolStream({ name, arguments: input })) {
                const { type, task, result, error } = news;
                say({ type, status: task?.status, text: result?.content?.[0]?.text, error: error && String(error) });
                if (type === 'taskCreated') say({ listed: (await client.experimental.tasks.listTasks()).tasks });
            }
            continue;
        }
        const result = await client.callTool({ name, arguments: input });
        say({ result: { text: result.content.map(block => block.text), isError: result.isError ?? false } });
    } catch (error) {
        say({ error: String(error) });
    }
}
await client.close();
