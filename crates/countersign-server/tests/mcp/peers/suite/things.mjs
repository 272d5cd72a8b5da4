// Resources, prompts and everything else besides tools that the conformance suite tests. The names are the suite's.
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';

export function offer(sdk, server) {
    const resource = (name, uri, mimeType, content) => {
        const described = { title: name, description: `The resource ${name}.`, mimeType };
        server.registerResource(name, uri, described, async () => ({ contents: [{ uri, mimeType, ...content }] }));
    };
    resource('static-text', 'test://static-text', 'text/plain', { text: 'A text that never changes.' });
    resource('static-binary', 'test://static-binary', 'image/png', { blob: PIXEL });
    resource('watched-resource', 'test://watched-resource', 'text/plain', { text: 'A text that is watched.' });
    server.registerResource(
        'template',
        new sdk.ResourceTemplate('test://template/{id}/data', { list: undefined }),
        { title: 'template', description: 'One of many.', mimeType: 'application/json' },
        async (uri, { id }) => {
            const text = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
            return { contents: [{ uri: uri.toString(), mimeType: 'application/json', text }] };
        },
    );
    server.server.setRequestHandler('resources/subscribe', async () => ({}));
    server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
    server.server.setRequestHandler('logging/setLevel', async () => ({}));
    server.server.setRequestHandler('completion/complete', async () => {
        return { completion: { values: [], total: 0, hasMore: false } };
    });

    const says = (...contents) => ({ messages: contents.map(content => ({ role: 'user', content })) });
    const text = text => ({ type: 'text', text });
    const strings = (...names) => {
        const properties = Object.fromEntries(names.map(name => [name, { type: 'string', description: name }]));
        return sdk.fromJsonSchema({ type: 'object', properties, required: names });
    };
    const prompt = (name, argsSchema, make) => {
        server.registerPrompt(name, { title: name, description: `The prompt ${name}.`, argsSchema }, make);
    };
    prompt('test_simple_prompt', undefined, async () => says(text('A simple prompt.')));
    prompt('test_prompt_with_arguments', strings('arg1', 'arg2'), async ({ arg1, arg2 }) => {
        return says(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`));
    });
    prompt('test_prompt_with_embedded_resource', strings('resourceUri'), async ({ resourceUri }) => {
        const resource = { uri: resourceUri, mimeType: 'text/plain', text: 'What is embedded.' };
        return says({ type: 'resource', resource }, text('Look at the resource.'));
    });
    prompt('test_prompt_with_image', undefined, async () => {
        return says({ type: 'image', data: PIXEL, mimeType: 'image/png' }, text('Look at the image.'));
    });
    prompt('test_input_required_result_prompt', undefined, async context => {
        const given = sdk.acceptedContent(context.mcpReq.inputResponses, 'user_context')?.context;
        if (typeof given === 'string') return says(text(`Use the following context: ${given}`));
        const properties = { context: { type: 'string' } };
        const user_context = sdk.inputRequired.elicit({
            message: 'Which context?',
            requestedSchema: { type: 'object', properties, required: ['context'] },
        });
        return sdk.inputRequired({ inputRequests: { user_context } });
    });
}
