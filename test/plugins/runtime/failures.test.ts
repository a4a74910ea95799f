import { expect } from 'chai'
import { signalled } from '../../support/signalled.js'
import {
  decide,
  nothingAllowed,
  type RuntimeHandler,
  respond,
  type SetupOptions,
  startSetup,
  unusedUrl,
} from './gateway.js'

const longTimeout = { timeoutMs: 60_000 }
const shortTimeout = { timeoutMs: 500, maxRetries: 0 }

const failures: Readonly<Record<string, { runtime: RuntimeHandler; remote?: object; requests: number }>> = {
  'sends no response in time': { runtime: () => undefined, remote: shortTimeout, requests: 1 },
  'stalls after the response headers': {
    runtime: (response) => response.writeHead(200).write('{'),
    remote: shortTimeout,
    requests: 1,
  },
  'stalls in the body of an error response': {
    runtime: (response) => response.writeHead(500).write('{'),
    remote: shortTimeout,
    requests: 1,
  },
  'closes the connection': { runtime: (response) => response.destroy(), remote: longTimeout, requests: 2 },
  'responds 500 twice': { runtime: (response) => respond(response, 500, {}), requests: 2 },
  'responds 408': { runtime: (response) => respond(response, 408, {}), requests: 2 },
  'responds 429': { runtime: (response) => respond(response, 429, {}), requests: 2 },
  'responds 401': { runtime: (response) => respond(response, 401, {}), requests: 1 },
  'responds 204': { runtime: (response) => response.writeHead(204).end(), requests: 1 },
  redirects: {
    runtime: (response, call) =>
      respond(response, 307, {}, { location: `http://${call.headers.host}/other` }),
    requests: 1,
  },
  'sends invalid JSON': { runtime: (response) => response.end('<html>'), requests: 1 },
  'sends JSON with duplicate members': {
    runtime: (response) =>
      response.end('{"protocolVersion":"2026-02-01","decision":{"action":"allow","action":"allow"}}'),
    requests: 1,
  },
  'sends JSON of another structure': {
    runtime: (response) => respond(response, 200, { verdict: 'allow' }),
    requests: 1,
  },
  'sends an unknown action': {
    runtime: (response) => decide(response, { action: 'permit' }),
    requests: 1,
  },
  'sends an unknown member': {
    runtime: (response) => decide(response, { action: 'allow', unless: 'it is dark' }),
    requests: 1,
  },
  'sends another protocol version': {
    runtime: (response) => decide(response, { action: 'allow' }, '2027-01-01'),
    requests: 1,
  },
  'sends an unknown obligation': {
    runtime: (response) => decide(response, { action: 'allow', obligations: [{ type: 'sing' }] }),
    requests: 1,
  },
  'sends an unsupported redaction': {
    runtime: (response) =>
      decide(response, {
        action: 'allow',
        obligations: [{ type: 'redact_output', params: { patterns: ['(a+)+$'] } }],
      }),
    requests: 1,
  },
}

describe('a remote runtime that fails', () => {
  for (const [how, { runtime, remote = {}, requests }] of Object.entries(failures)) {
    it(`${how}: the call is refused by default`, async () => {
      await using setup = await startSetup({ runtime, remote })
      const response = await setup.call()
      expect(response.status).to.equal(503)
      expect(response.headers.get('retry-after')).to.equal('1')
      expect(await response.json()).to.include({
        error: 'RUNTIME_UNAVAILABLE',
        message: 'The runtime is unavailable, so the call was not sent.',
        sent: false,
      })
      expect(setup.runtimeRequests.map(({ path }) => path)).to.deep.equal(Array(requests).fill('/evaluate'))
      expect(setup.toolRequests).to.deep.equal([])
      expect(setup.lastRecord()).to.include({ status: 'error', error: 'RUNTIME_UNAVAILABLE' })
    })
  }

  it('does not accept connections: the call is refused by default', async () => {
    await using setup = await startSetup({ endpoint: await unusedUrl() })
    expect((await setup.call()).status).to.equal(503)
    expect(setup.meter.values.get('svc_runtime_retries_total')).to.equal(1)
    expect(setup.toolRequests).to.deep.equal([])
  })

  const failing: SetupOptions = {
    runtime: (response) => respond(response, 500, {}),
    remote: { maxRetries: 0 },
  }

  it('applies the policy rule with failureMode local', async () => {
    await using strict = await startSetup({ ...failing, failureMode: 'local', gateway: nothingAllowed })
    expect(await (await strict.call()).json()).to.include({ denial_reason: 'tool_not_in_allowlist' })
    await using clean = await startSetup({ ...failing, failureMode: 'local' })
    expect((await clean.call()).status).to.equal(200)
    expect(clean.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['runtime_unavailable', 'reported'],
    ])
  })

  it('lets calls pass with failureMode allow and records it', async () => {
    await using setup = await startSetup({ ...failing, failureMode: 'allow', gateway: nothingAllowed })
    expect((await setup.call()).status).to.equal(200)
    expect(setup.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['tool_not_in_allowlist', 'reported'],
      ['runtime_unavailable', 'reported'],
    ])
  })

  it('is only recorded in observe mode, with any failureMode', async () => {
    await using setup = await startSetup({
      ...failing,
      failureMode: 'deny',
      gateway: { enforcement: { mode: 'observe', deny_on: [] } },
    })
    expect((await setup.call()).status).to.equal(200)
    expect(setup.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['runtime_unavailable', 'reported'],
      ['runtime_denied', 'would_deny'],
    ])
  })

  it('gets a retry after a 500, whose response counts', async () => {
    await using setup = await startSetup({
      runtime: (response, _call, count) =>
        count === 1 ? respond(response, 500, {}) : decide(response, { action: 'allow' }),
    })
    expect((await setup.call()).status).to.equal(200)
    const [first, second] = setup.runtimeRequests.map(({ body }) => JSON.parse(body) as { requestId: string })
    expect(first).to.deep.equal(second)
  })

  it('gets a retry after the delay in Retry-After if the time limit allows it', async () => {
    await using setup = await startSetup({
      remote: { timeoutMs: 60_000, retryBackoffMs: 50_000 },
      runtime: (response, _call, count) =>
        count === 1
          ? respond(response, 429, {}, { 'retry-after': '0' })
          : decide(response, { action: 'allow' }),
    })
    expect((await setup.call()).status).to.equal(200)
    expect(setup.runtimeRequests).to.have.length(2)
  })

  it('gets no retry if Retry-After exceeds the time limit', async () => {
    await using setup = await startSetup({
      remote: { timeoutMs: 50_000 },
      runtime: (response) => respond(response, 503, {}, { 'retry-after': '60' }),
    })
    const began = performance.now()
    expect((await setup.call()).status).to.equal(503)
    expect(performance.now() - began).to.be.lessThan(40_000)
    expect(setup.runtimeRequests).to.have.length(1)
  })

  it('has its request aborted when the caller disconnects', async () => {
    const { happened: hasClosed, resolve: close } = signalled()
    const { happened: hasArrived, resolve: arrive } = signalled()
    await using setup = await startSetup({
      remote: longTimeout,
      runtime: (response) => {
        response.once('close', close)
        arrive()
      },
    })
    const caller = new AbortController()
    const stateless = {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'prompts/get',
      'mcp-name': 'x',
      'content-type': 'application/json',
    }
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
    const body = { jsonrpc: '2.0', id: 1, method: 'prompts/get', params: { name: 'x', _meta } }
    const responded = fetch(`${setup.gateway.url}/mcp/files`, {
      method: 'POST',
      headers: stateless,
      body: JSON.stringify(body),
      signal: caller.signal,
    }).catch((error: unknown) => error)
    await hasArrived
    caller.abort()
    expect(await responded).to.have.property('name', 'AbortError')
    await hasClosed
    expect(setup.runtimeRequests).to.have.length(1)
  })
})
