// The extension `io.modelcontextprotocol/tasks` of protocol version 2026-07-28, which the SDK does not implement.
import { randomUUID } from 'node:crypto';

const EXTENSION = 'io.modelcontextprotocol/tasks';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const METHODS = ['tasks/get', 'tasks/update', 'tasks/cancel'];

const text = text => ({ resultType: 'complete', content: [{ type: 'text', text }] });
const question = message => {
    const requestedSchema = { type: 'object', properties: { confirm: { type: 'boolean' } } };
    return { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema } };
};

/** How each of these tools behaves as a task. */
const TOOLS = {
    slow_compute: (task, { seconds = 0, label }) => task.later(seconds, () => task.completes(text(`computed ${label}`))),
    failing_job: task => task.later(1, () => task.completes({ ...text('it failed'), isError: true })),
    protocol_error_job: task => task.later(0.2, () => task.fails({ code: -32603, message: 'it broke' })),
    confirm_delete: (task, { filename }) => task.asks({ [randomUUID()]: question(`Delete ${filename}?`) }),
    multi_input: task => task.asks({ [randomUUID()]: question('First?'), [randomUUID()]: question('Second?') }),
    test_tool_with_task: (task, _, name) => task.later(0.2, () => task.completes(text(`for ${name}`))),
};

class Task {
    taskId = randomUUID();
    status = 'working';
    createdAt = new Date().toISOString();
    lastUpdatedAt = this.createdAt;
    more = {};

    becomes(status, more = {}) {
        if (['completed', 'failed', 'cancelled'].includes(this.status)) return;
        clearTimeout(this.timer);
        Object.assign(this, { status, more, lastUpdatedAt: new Date().toISOString() });
    }

    later(seconds, end) {
        this.timer = setTimeout(end, seconds * 1000);
    }

    completes(result) {
        this.becomes('completed', { result });
    }

    fails(error) {
        this.becomes('failed', { error });
    }

    asks(inputRequests) {
        this.becomes('input_required', { inputRequests });
    }

    /** Accepts answers; the last one completes the task. */
    told(answers) {
        if (this.status !== 'input_required') return;
        const left = Object.entries(this.more.inputRequests).filter(([key]) => !(key in answers));
        left.length > 0 ? this.asks(Object.fromEntries(left)) : this.completes(text('confirmed'));
    }

    shown() {
        const { taskId, status, createdAt, lastUpdatedAt } = this;
        return { taskId, status, createdAt, lastUpdatedAt, ttlMs: 3600000, pollIntervalMs: 200 };
    }
}

export class Tasks {
    #all = new Map();

    /** Returns true if the request concerns a task. */
    about(request, body) {
        const isTool = body?.method === 'tools/call' && Object.hasOwn(TOOLS, body.params?.name);
        const isTask = METHODS.includes(body?.method);
        return request.method === 'POST' && (isTask || isTool);
    }

    /** Answers a request after the SDK has validated its headers and body. */
    async answer(request, body, check) {
        const can = body.params?._meta?.[CAPABILITIES]?.extensions?.[EXTENSION] !== undefined;
        const { name, arguments: input = {}, inputResponses, taskId } = body.params ?? {};
        // Validate without arguments: the checks are the same, and the tool returns at once.
        const isPassed = body.method === 'tools/call' && !can && name === 'slow_compute';
        if (isPassed) return check(request);
        const bare = JSON.stringify({ ...body, params: { ...body.params, arguments: {} } });
        const checked = await check(new Request(request, { body: bare, duplex: 'half' }));
        const found = await checked.clone().json().catch(() => undefined);
        const isWrong = [-32020, -32022, -32700, -32600].includes(found?.error?.code);
        if (isWrong) return checked;
        if (!can) {
            const data = { requiredCapabilities: { extensions: { [EXTENSION]: {} } } };
            const error = { code: -32021, message: `the client does not declare ${EXTENSION}`, data };
            return Response.json({ jsonrpc: '2.0', id: body.id, error }, { status: 400 });
        }
        const result = result => Response.json({ jsonrpc: '2.0', id: body.id, result });
        if (body.method === 'tools/call') return result(this.#begin(name, input, inputResponses));
        const task = this.#all.get(taskId);
        if (!task) {
            const error = { code: -32602, message: 'there is no such task' };
            return Response.json({ jsonrpc: '2.0', id: body.id, error });
        }
        if (body.method === 'tasks/cancel') task.becomes('cancelled');
        if (body.method === 'tasks/update') task.told(inputResponses ?? {});
        const shown = body.method === 'tasks/get' ? { ...task.shown(), ...task.more } : {};
        return result({ resultType: 'complete', ...shown });
    }

    #begin(name, input, given) {
        const who = given?.user_name?.content?.name;
        if (name === 'test_tool_with_task' && who === undefined) {
            return { resultType: 'input_required', inputRequests: { user_name: question('Who are you?') } };
        }
        const task = new Task();
        this.#all.set(task.taskId, task);
        TOOLS[name](task, input, who);
        return { resultType: 'task', ...task.shown(), ...{ status: 'working' } };
    }
}
