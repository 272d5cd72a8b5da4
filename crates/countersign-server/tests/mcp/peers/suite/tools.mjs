// The tools that the conformance suite calls, under the names it expects.
import { randomUUID } from 'node:crypto';

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';
const IMAGE = { type: 'image', data: PIXEL, mimeType: 'image/png' };

const sleep = time => new Promise(done => setTimeout(done, time));
const text = text => ({ type: 'text', text });
const says = (...content) => ({ content });
const embedded = (uri, mimeType, text) => ({ type: 'resource', resource: { uri, mimeType, text } });

/** Registers all tools; the last argument contains what they need of the server. */
export function offerTools(sdk, server, { codec, sessions, notify }) {
    const tool = (name, schema, call) => {
        const inputSchema = sdk.fromJsonSchema({ type: 'object', ...schema });
        server.registerTool(name, { description: `The tool ${name}.`, inputSchema }, call);
    };
    contents(tool);
    questions(tool);
    schemas(tool);
    rounds(sdk, tool, codec);
    tool('test_reconnection', {}, async (_, context) => {
        sessions.get(context.sessionId)?.closeSSEStream(context.mcpReq.id);
        await sleep(100);
        return says(text('Said after the stream was closed.'));
    });
    tool('test_trigger_tool_change', {}, async () => {
        notify().toolsChanged();
        return says(text('changed'));
    });
    tool('test_trigger_prompt_change', {}, async () => {
        notify().promptsChanged();
        return says(text('changed'));
    });
    const named = name => ({ properties: { [name]: { type: 'string' } } });
    tool('greet', named('name'), async ({ name }) => says(text(`Hello, ${name}!`)));
    // Tools that can become tasks; see `tasks.mjs`.
    tool('slow_compute', { properties: { seconds: { type: 'number' }, label: { type: 'string' } } }, async input => {
        await sleep(1000 * (input.seconds ?? 0));
        return says(text(`computed ${input.label}`));
    });
    for (const name of ['failing_job', 'protocol_error_job', 'confirm_delete', 'multi_input', 'test_tool_with_task']) {
        tool(name, {}, async () => ({ isError: true, content: [text(`${name} is done as a task only`)] }));
    }
}

function contents(tool) {
    tool('test_simple_text', {}, async () => says(text('This is a simple text response for testing.')));
    tool('test_image_content', {}, async () => says(IMAGE));
    tool('test_audio_content', {}, async () => says({ type: 'audio', data: SILENCE, mimeType: 'audio/wav' }));
    tool('test_embedded_resource', {}, async () => {
        return says(embedded('test://embedded-resource', 'text/plain', 'What is embedded.'));
    });
    tool('test_multiple_content_types', {}, async () => {
        const data = embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}');
        return says(text('Several kinds at once:'), IMAGE, data);
    });
    tool('test_error_handling', {}, async () => {
        throw new Error('This tool intentionally returns an error for testing');
    });
    tool('test_tool_with_logging', {}, async (_, context) => {
        for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
            await context.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
            await sleep(50);
        }
        return says(text('logged'));
    });
    tool('test_logging_tool', {}, async (_, context) => {
        await context.mcpReq.log('info', 'only who asked for it hears this');
        return says(text('logged'));
    });
    tool('test_tool_with_progress', {}, async (_, context) => {
        const progressToken = context.mcpReq._meta?.progressToken;
        for (const progress of progressToken === undefined ? [] : [0, 50, 100]) {
            const params = { progressToken, progress, total: 100, message: `${progress} of 100` };
            await context.mcpReq.notify({ method: 'notifications/progress', params });
            await sleep(50);
        }
        return says(text(String(progressToken ?? 'nobody wants to know')));
    });
    tool('test_streaming_elicitation', {}, async () => says(text('nothing was asked')));
}

/** Tools that send requests to the client during a call, as in the earlier protocol generation. */
function questions(tool) {
    const asks = (name, schema, method, params, told) => {
        tool(name, schema, async (input, context) => {
            try {
                return says(text(told(await context.mcpReq.send({ method, params: params(input) }))));
            } catch (error) {
                return says(text(`not answered: ${error.message}`));
            }
        });
    };
    const one = name => ({ properties: { [name]: { type: 'string' } }, required: [name] });
    const answered = ({ action, content }) => `Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`;
    const form = (properties, required = []) => ({ type: 'object', properties, required });
    asks(
        'test_sampling',
        one('prompt'),
        'sampling/createMessage',
        ({ prompt }) => ({ messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 }),
        ({ content }) => `LLM response: ${content.text}`,
    );
    const response = form({ response: { type: 'string', description: 'what you say' } }, ['response']);
    asks(
        'test_elicitation',
        one('message'),
        'elicitation/create',
        ({ message }) => ({ message, requestedSchema: response }),
        ({ action, content }) => `User response: action=${action}, content=${JSON.stringify(content ?? {})}`,
    );
    const defaults = form({
        name: { type: 'string', default: 'John Doe' },
        age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
        verified: { type: 'boolean', default: true },
    });
    const ask = (message, requestedSchema) => () => ({ message, requestedSchema });
    asks('test_elicitation_sep1034_defaults', {}, 'elicitation/create', ask('Fill in', defaults), answered);
    const titled = (...names) => names.map((title, at) => ({ const: `value${at + 1}`, title }));
    const options = ['option1', 'option2', 'option3'];
    const several = { type: 'array', minItems: 1, maxItems: 3 };
    const enums = form({
        untitledSingle: { type: 'string', enum: options },
        titledSingle: { type: 'string', oneOf: titled('First', 'Second', 'Third') },
        legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
        untitledMulti: { ...several, items: { type: 'string', enum: options } },
        titledMulti: { ...several, items: { anyOf: titled('First', 'Second', 'Third') } },
    });
    asks('test_elicitation_sep1330_enums', {}, 'elicitation/create', ask('Choose', enums), answered);
}

/** Tools whose schemas must arrive unchanged. */
function schemas(tool) {
    const region = { type: 'string', description: 'goes into a header as well', 'x-mcp-header': 'Region' };
    tool('test_x_mcp_header', { properties: { region, level: { type: 'integer' } } }, async ({ region }) => {
        return says(text(`region=${region ?? 'none'}`));
    });
    const string = { type: 'string' };
    const contact = { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] };
    const schema = {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } } },
        properties: {
            name: string,
            address: { $ref: '#/$defs/address' },
            contactMethod: { type: 'string', enum: ['phone', 'email'] },
            phone: string,
            email: string,
        },
        allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
        if: contact,
        then: { required: ['phone'] },
        else: { required: ['email'] },
        additionalProperties: false,
    };
    tool('json_schema_2020_12_tool', schema, async input => says(text(JSON.stringify(input))));
}

/** Tools that ask as in the later generation: the call is answered with questions and repeated with the answers. */
function rounds(sdk, tool, codec) {
    const { inputRequired, acceptedContent } = sdk;
    const asked = (inputRequests, requestState) => inputRequired({ inputRequests, requestState });
    const elicit = (message, name, type = 'string') => {
        const properties = { [name]: { type } };
        return inputRequired.elicit({ message, requestedSchema: { type: 'object', properties, required: [name] } });
    };
    const sample = text => {
        const messages = [{ role: 'user', content: { type: 'text', text } }];
        return inputRequired.createMessage({ messages, maxTokens: 50 });
    };
    const state = about => codec.mint({ ...about, nonce: randomUUID() });
    const name = () => elicit('What is your name?', 'name');

    tool('test_missing_capability', {}, async (_, { mcpReq }) => {
        if (mcpReq.inputResponses?.llm_answer !== undefined) return says(text('answered'));
        return asked({ llm_answer: sample('Say pong') });
    });
    tool('test_input_required_result_elicitation', {}, async (_, { mcpReq }) => {
        const given = acceptedContent(mcpReq.inputResponses, 'user_name')?.name;
        return typeof given === 'string' ? says(text(`Hello, ${given}!`)) : asked({ user_name: name() });
    });
    tool('test_input_required_result_sampling', {}, async (_, { mcpReq }) => {
        const given = mcpReq.inputResponses?.capital_question;
        if (given !== undefined) return says(text(`Sampling response: ${given.content?.text}`));
        return asked({ capital_question: sample('What is the capital of France?') });
    });
    tool('test_input_required_result_list_roots', {}, async (_, { mcpReq }) => {
        const roots = mcpReq.inputResponses?.client_roots?.roots;
        if (Array.isArray(roots)) return says(text(roots.map(root => root.uri).join(', ')));
        return asked({ client_roots: inputRequired.listRoots() });
    });
    const confirm = () => ({ confirm: elicit('Please confirm', 'ok', 'boolean') });
    tool('test_input_required_result_request_state', {}, async (_, { mcpReq }) => {
        const isGiven = acceptedContent(mcpReq.inputResponses, 'confirm') !== undefined;
        if (!isGiven) return asked(confirm(), await state({ tool: 'request_state' }));
        if (mcpReq.requestState() !== undefined) return says(text('state-ok'));
        throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, 'the requestState is missing');
    });
    tool('test_input_required_result_tampered_state', {}, async (_, { mcpReq }) => {
        const isGiven = acceptedContent(mcpReq.inputResponses, 'confirm') !== undefined;
        if (isGiven && mcpReq.requestState() !== undefined) return says(text('integrity-ok'));
        return asked(confirm(), await state({ tool: 'tampered_state' }));
    });
    tool('test_input_required_result_multiple_inputs', {}, async (_, { mcpReq }) => {
        const given = mcpReq.inputResponses;
        const who = acceptedContent(given, 'user_name')?.name;
        const [greeting, roots] = [given?.greeting?.content?.text, given?.client_roots?.roots];
        if (typeof who === 'string' && typeof greeting === 'string' && Array.isArray(roots)) {
            return says(text(`${greeting} ${who}, ${roots.length} roots`));
        }
        const all = { user_name: name(), greeting: sample('Greet'), client_roots: inputRequired.listRoots() };
        return asked(all, await state({ tool: 'multiple_inputs' }));
    });
    tool('test_input_required_result_multi_round', {}, async (_, { mcpReq }) => {
        const before = mcpReq.requestState();
        const given = (step, member) => acceptedContent(mcpReq.inputResponses, step)?.[member];
        if (before?.round === 1) {
            const next = await state({ round: 2, name: given('step1', 'name') });
            return asked({ step2: elicit('Your favorite color?', 'color') }, next);
        }
        if (before?.round === 2) return says(text(`${before.name} likes ${given('step2', 'color')}`));
        return asked({ step1: name() }, await state({ round: 1 }));
    });
    tool('test_input_required_result_capabilities', {}, async (_, { mcpReq }) => {
        const can = mcpReq.envelope?.[sdk.CLIENT_CAPABILITIES_META_KEY] ?? {};
        const all = {};
        if (can.elicitation !== undefined) all.user_name = name();
        if (can.sampling !== undefined) all.greeting = sample('Greet');
        if (can.roots !== undefined) all.client_roots = inputRequired.listRoots();
        const isDone = mcpReq.inputResponses !== undefined || Object.keys(all).length === 0;
        return isDone ? says(text('nothing more to ask')) : asked(all);
    });
}
