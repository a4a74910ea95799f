import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { expect } from 'chai'
import { decide, nothingAllowed, type RigOptions, type RuntimeAnswer, respond, startRig } from './rig.js'

/** Refuses connections: whoever had the port has closed it. */
async function closedPort(): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}/evaluate`
}

const patient = { timeoutMs: 60_000 }
const hasty = { timeoutMs: 500, maxRetries: 0 }

const failures: Readonly<Record<string, { runtime: RuntimeAnswer; remote?: object; tries: number }>> = {
  'gives no answer in time': { runtime: () => undefined, remote: hasty, tries: 1 },
  'hangs after its headers': {
    runtime: (response) => response.writeHead(200).write('{'),
    remote: hasty,
    tries: 1,
  },
  'hangs in the body of an error': {
    runtime: (response) => response.writeHead(500).write('{'),
    remote: hasty,
    tries: 1,
  },
  'closes the connection': { runtime: (response) => response.destroy(), remote: patient, tries: 2 },
  'answers 500 again and again': { runtime: (response) => respond(response, 500, {}), tries: 2 },
  'answers 408': { runtime: (response) => respond(response, 408, {}), tries: 2 },
  'answers 429': { runtime: (response) => respond(response, 429, {}), tries: 2 },
  'answers 401': { runtime: (response) => respond(response, 401, {}), tries: 1 },
  'answers 204': { runtime: (response) => response.writeHead(204).end(), tries: 1 },
  redirects: {
    runtime: (response, call) =>
      respond(response, 307, {}, { location: `http://${call.headers.host}/other` }),
    tries: 1,
  },
  'answers what is not JSON': { runtime: (response) => response.end('<html>'), tries: 1 },
  'answers JSON that two readers read differently': {
    runtime: (response) =>
      response.end('{"protocolVersion":"2026-02-01","decision":{"action":"deny","action":"allow"}}'),
    tries: 1,
  },
  'answers another shape': { runtime: (response) => respond(response, 200, { verdict: 'allow' }), tries: 1 },
  'decides what the protocol does not know': {
    runtime: (response) => decide(response, { action: 'permit' }),
    tries: 1,
  },
  'attaches a member that the protocol does not know': {
    runtime: (response) => decide(response, { action: 'allow', unless: 'it is dark' }),
    tries: 1,
  },
  'speaks another version': {
    runtime: (response) => decide(response, { action: 'allow' }, '2027-01-01'),
    tries: 1,
  },
  'answers more than anyone wants to read': {
    runtime: (response) => decide(response, { action: 'allow', reason: 'x'.repeat(100_000) }),
    tries: 1,
  },
  'obliges to something unknown': {
    runtime: (response) => decide(response, { action: 'allow', obligations: [{ type: 'sing' }] }),
    tries: 1,
  },
  'obliges to a redaction that cannot be done': {
    runtime: (response) =>
      decide(response, {
        action: 'allow',
        obligations: [{ type: 'redact_output', params: { patterns: ['(a+)+$'] } }],
      }),
    tries: 1,
  },
}

describe('a remote runtime that fails', () => {
  for (const [how, { runtime, remote = {}, tries }] of Object.entries(failures)) {
    it(`because it ${how}: no call passes by default`, async () => {
      await using rig = await startRig({ runtime, remote })
      const response = await rig.call()
      expect(response.status).to.equal(503)
      expect(response.headers.get('retry-after')).to.equal('1')
      expect(await response.json()).to.include({
        error: 'RUNTIME_UNAVAILABLE',
        message: 'The runtime could not be asked, so the call was not sent.',
        sent: false,
      })
      expect(rig.asked.map(({ path }) => path)).to.deep.equal(Array(tries).fill('/evaluate'))
      expect(rig.served).to.deep.equal([])
      expect(rig.lastRecord()).to.include({ status: 'error', error: 'RUNTIME_UNAVAILABLE' })
    })
  }

  it('because nobody listens: no call passes by default', async () => {
    await using rig = await startRig({ endpoint: await closedPort() })
    expect((await rig.call()).status).to.equal(503)
    expect(rig.meter.values.get('svc_runtime_retries_total')).to.equal(1)
    expect(rig.served).to.deep.equal([])
  })

  const failing: RigOptions = { runtime: (response) => respond(response, 500, {}), remote: { maxRetries: 0 } }

  it('leaves the verdict to the policy with failureMode local', async () => {
    await using strict = await startRig({ ...failing, failureMode: 'local', options: nothingAllowed })
    expect(await (await strict.call()).json()).to.include({ denial_reason: 'tool_not_in_allowlist' })
    await using clean = await startRig({ ...failing, failureMode: 'local' })
    expect((await clean.call()).status).to.equal(200)
    expect(clean.lastRecord().findings).to.deep.equal([])
  })

  it('lets calls pass with failureMode allow, and the record tells', async () => {
    await using rig = await startRig({ ...failing, failureMode: 'allow', options: nothingAllowed })
    expect((await rig.call()).status).to.equal(200)
    expect(rig.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['tool_not_in_allowlist', 'reported'],
      ['runtime_unavailable', 'reported'],
    ])
  })

  it('is only recorded in observe mode, whatever the failure mode', async () => {
    await using rig = await startRig({
      ...failing,
      failureMode: 'deny',
      options: { enforcement: { mode: 'observe', deny_on: [] } },
    })
    expect((await rig.call()).status).to.equal(200)
    expect(rig.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['runtime_unavailable', 'reported'],
      ['runtime_denied', 'would_deny'],
    ])
  })

  it('is asked again after a 500, and the second answer counts', async () => {
    await using rig = await startRig({
      runtime: (response, _call, nth) =>
        nth === 1 ? respond(response, 500, {}) : decide(response, { action: 'allow' }),
    })
    expect((await rig.call()).status).to.equal(200)
    const [first, second] = rig.asked.map(({ body }) => JSON.parse(body) as { requestId: string })
    expect(first).to.deep.equal(second)
  })

  it('is asked again when Retry-After says, where the time allows it', async () => {
    await using rig = await startRig({
      remote: { timeoutMs: 60_000, retryBackoffMs: 50_000 },
      runtime: (response, _call, nth) =>
        nth === 1
          ? respond(response, 429, {}, { 'retry-after': '0' })
          : decide(response, { action: 'allow' }),
    })
    expect((await rig.call()).status).to.equal(200)
    expect(rig.asked).to.have.length(2)
  })

  it('is not waited for where Retry-After outlasts the time', async () => {
    await using rig = await startRig({
      remote: { timeoutMs: 50_000 },
      runtime: (response) => respond(response, 503, {}, { 'retry-after': '60' }),
    })
    const began = performance.now()
    expect((await rig.call()).status).to.equal(503)
    expect(performance.now() - began).to.be.lessThan(40_000)
    expect(rig.asked).to.have.length(1)
  })

  it('is asked no longer when the caller has left', async () => {
    let leave = (): void => undefined
    const hasClosed = new Promise<void>((resolve) => {
      leave = resolve
    })
    let ask = (): void => undefined
    const isAsked = new Promise<void>((resolve) => {
      ask = resolve
    })
    await using rig = await startRig({
      remote: patient,
      runtime: (response) => {
        response.once('close', leave)
        ask()
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
    const answered = fetch(`${rig.gateway.url}/mcp/files`, {
      method: 'POST',
      headers: stateless,
      body: JSON.stringify(body),
      signal: caller.signal,
    }).catch((fault: unknown) => fault)
    await isAsked
    caller.abort()
    expect(await answered).to.have.property('name', 'AbortError')
    await hasClosed
    expect(rig.asked).to.have.length(1)
  })
})
