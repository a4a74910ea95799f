import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Appender, bind, definePlugin, tokens } from '@svc/core'
import { expect } from 'chai'
import { createPipeline, PolicyError, startGatewayServer } from 'svc-sdk'
import { z } from 'zod'
import { recordingTo, startTestGateway } from '../../support/gateway.js'
import { keepingLogger } from '../../support/logger.js'
import { startUpstream } from '../../support/upstream.js'

const minimal = {
  port: 0,
  tenant: 'acme',
  targets: { files: 'http://127.0.0.1:1' },
  quotas: { adapter: 'memory' as const },
  entitlements: 'open' as const,
  audit: { gatewayName: 'gw', gatewayVersion: '1', append: async () => undefined },
}

async function faultOf(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => expect.fail('did not reject'),
    (fault: unknown) => fault as Error,
  )
}

const quiet = {
  configure: (container: Parameters<typeof bind>[0]) =>
    bind(container, tokens.Logger, { useValue: keepingLogger() }),
}

describe('startGatewayServer', () => {
  it('throws at once without audit', () => {
    const { audit: _audit, ...rest } = minimal
    // @ts-expect-error: the type requires it too.
    expect(() => startGatewayServer(rest)).to.throw(/audit/)
  })

  it('throws at once without quotas', () => {
    const { quotas: _quotas, ...rest } = minimal
    // @ts-expect-error: the type requires it too.
    expect(() => startGatewayServer(rest)).to.throw(/quotas/)
  })

  it('throws when two policies are given', () => {
    expect(() => startGatewayServer({ ...minimal, policyYaml: 'tenant: a', policyObject: {} })).to.throw(
      /both given/,
    )
  })

  it('passes every record to audit.append when code provides it', async () => {
    const records: object[] = []
    await using upstream = await startUpstream()
    const handle = startGatewayServer({
      ...minimal,
      ...quiet,
      targets: { files: upstream.url },
      authn: { allowUnauthenticated: true },
      audit: { gatewayName: 'gw', gatewayVersion: '1', append: async (record) => void records.push(record) },
    })
    const { url } = await handle.ready()
    await fetch(`${url}/mcp/files/read@1`, { method: 'POST', body: '{}' })
    await handle.close()
    expect(records).to.have.length(1)
    expect(records[0]).to.include({ tool: 'read@1', status: 'ok' })
  })

  it('prefers sections of the policy to those of the options', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({
      targets: { files: 'http://127.0.0.1:1' },
      policyYaml: `targets:\n  files: ${upstream.url}\n`,
    })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
  })

  it('rejects ready() when the port is taken, and says what to do', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => holder.once('listening', resolve))
    const address = holder.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const handle = startGatewayServer({ ...minimal, ...quiet, port })
    const fault = await faultOf(handle.ready())
    expect(fault).to.have.property('code', 'EADDRINUSE')
    expect(fault.message).to.equal(
      `cannot listen on 127.0.0.1:${port}, the port is taken: end what listens there, or choose another port (0 picks a free one)`,
    )
    await handle.close()
    await new Promise((resolve) => holder.close(resolve))
  })

  it('throws at once when the signing key is missing or cannot be read', () => {
    const audit = { gatewayName: 'gw', gatewayVersion: '1' }
    const start = (signer: object) => () =>
      startGatewayServer({ ...minimal, ...quiet, audit: { ...audit, ...signer } })
    expect(start({})).to.throw(PolicyError, 'audit.signer.keyRef: is missing')
    expect(start({ signer: { keyRef: 'file:///nonexistent/key' } })).to.throw(
      PolicyError,
      'audit.signer.keyRef: no key file at /nonexistent/key',
    )
  })

  it('rejects ready() when the log directory cannot be made', async () => {
    const home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    writeFileSync(join(home, 'file'), '')
    const fault = await faultOf(
      startTestGateway({
        targets: minimal.targets,
        policyObject: {
          audit: {
            gatewayName: 'gw',
            gatewayVersion: '1',
            dir: join(home, 'file', 'audit'),
            signer: { keyRef: keyIn(home) },
          },
        },
      }),
    )
    expect(fault.message).to.match(/^stage audit did not start: /)
    rmSync(home, { recursive: true })
  })

  it('rejects ready() when a plugin module cannot be imported, and names it', async () => {
    const handle = startGatewayServer({
      ...minimal,
      ...quiet,
      policyObject: { plugins: [{ use: './nosuch.js' }] },
    })
    expect((await faultOf(handle.ready())).message).to.contain('./nosuch.js')
    await handle.close()
  })
})

function keyIn(home: string): string {
  const file = join(home, 'key')
  writeFileSync(file, `${Buffer.alloc(32, 7).toString('base64')}\n`)
  chmodSync(file, 0o600)
  return `file://${file}`
}

describe('a log that cannot be written', () => {
  /** Fails the appends that `failing` says, counting from 0. */
  function failingAppender(failing: (index: number) => boolean): Appender & { count: number } {
    return {
      count: 0,
      append() {
        return failing(this.count++) ? Promise.reject(new Error('ENOSPC')) : Promise.resolve()
      },
    }
  }

  it('withholds the answer of a call that ran, and says so', async () => {
    await using upstream = await startUpstream()
    const appender = failingAppender(() => true)
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      ...recordingTo(appender),
    })
    const response = await gateway.invoke('/mcp/files/read@1')
    expect(response.status).to.equal(500)
    expect(await response.json()).to.include({ error: 'OUTCOME_UNRECORDED', sent: true })
  })

  it('stops calls before they are sent while the writer says that it cannot write', async () => {
    await using upstream = await startUpstream()
    const appender: Appender = {
      append: () => Promise.reject(new Error('ENOSPC')),
      status: () => ({ writable: false, error: new Error('ENOSPC') }),
    }
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      ...recordingTo(appender),
    })
    const response = await gateway.invoke('/mcp/files/read@1')
    expect(response.status).to.equal(503)
    expect(response.headers.get('retry-after')).to.equal('1')
    expect(await response.json()).to.include({ error: 'AUDIT_UNAVAILABLE', sent: false })
    expect(upstream.calls).to.have.length(0)
    expect((await fetch(`${gateway.url}/readyz`)).status).to.equal(503)
  })

  it('stays ready while the writer warns, and passes the warning on', async () => {
    const appender: Appender = {
      append: async () => undefined,
      status: () => ({ writable: true, warning: 'the disk runs low' }),
    }
    await using gateway = await startTestGateway({
      targets: {},
      ...recordingTo(appender),
    })
    const response = await fetch(`${gateway.url}/readyz`)
    expect(response.status).to.equal(200)
    expect(await response.json()).to.deep.equal({ status: 'ready', warnings: ['audit: the disk runs low'] })
  })

  it('serves and counts the loss with failure_mode: continue', async () => {
    await using upstream = await startUpstream()
    const counts: string[] = []
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      policyObject: { audit: { gatewayName: 'gw', gatewayVersion: '1', failure_mode: 'continue' } },
      configure: (container) => {
        bind<Appender>(container, tokens.SvcAppender, { useValue: failingAppender(() => true) })
        bind(container, tokens.Meter, { useValue: { count: (name) => counts.push(name) } })
      },
    })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    expect(counts).to.deep.equal(['svc_audit_append_failures_total'])
    expect(gateway.log.lines.filter(({ level }) => level === 'error')).to.have.length(1)
  })
})

/** An upstream whose answers the test gives, one by one. */
function heldUpstream() {
  const waiting: ServerResponse[] = []
  let arrived: (() => void) | undefined
  return {
    answer: (_call: unknown, response: ServerResponse): void => {
      waiting.push(response)
      arrived?.()
    },
    async next(): Promise<ServerResponse> {
      if (waiting.length === 0) await new Promise<void>((resolve) => (arrived = resolve))
      return waiting.shift() as ServerResponse
    },
  }
}

/** A stage of the user's own that lets calls pass when the test says so. */
function turnstile() {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  let arrive = (): void => undefined
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const plugin = definePlugin({
    name: 'turnstile',
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.strictObject({}),
    presence: 'always',
    // The first stage after it reads the request.
    phase: 'authentication',
    create: () => ({
      async handle(_call, next) {
        arrive()
        await opened
        return next()
      },
    }),
  })
  return { plugin, arrived, open }
}

/** A connection whose request has begun: the gateway takes it for one that is in use. */
async function begun(url: string, head: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await new Promise((resolve) => socket.write(head, resolve))
  return socket
}

/** What is answered when the request is sent to its end. */
async function finished(socket: Socket, rest: string): Promise<string> {
  socket.write(rest)
  const pieces: Buffer[] = []
  for await (const piece of socket) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

describe('drain', () => {
  it('completes calls in flight, refuses new ones and then closes', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.answer)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const running = gateway.invoke('/mcp/files/slow@1')
    const answer = await held.next()
    const closing = gateway.handle.close()
    answer.end('done')
    const response = await running
    expect(await response.text()).to.equal('done')
    expect(response.headers.get('connection')).to.equal('close')
    await closing
    expect(gateway.records()).to.have.length(1)
    expect((await faultOf(gateway.invoke('/mcp/files/slow@1'))).message).to.contain('ECONNREFUSED')
  })

  it('breaks off a call that outlasts the drain, and records it', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.answer)
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, server: { drainMs: 0 } })
    const running = gateway.invoke('/mcp/files/slow@1')
    await held.next()
    await gateway.handle.close()
    const response = await running
    expect(response.status).to.equal(502)
    expect(await response.json()).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'unknown' })
    expect(gateway.records()[0]).to.include({ error: 'UPSTREAM_UNREACHABLE', status: 'error' })
  })

  it('refuses a call that was accepted but not yet read when it began', async () => {
    await using upstream = await startUpstream()
    const { plugin, arrived, open } = turnstile()
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, plugins: [plugin] })
    const running = gateway.invoke('/mcp/files/read@1')
    await arrived
    const closing = gateway.handle.close()
    open()
    const response = await running
    expect(response.status).to.equal(503)
    expect(response.headers.get('retry-after')).to.equal('1')
    expect(await response.json()).to.include({ error: 'DRAINING', sent: false })
    await closing
    expect(upstream.calls).to.have.length(0)
    expect(gateway.records()[0]).to.include({ error: 'DRAINING' })
  })

  it('refuses and records requests that arrive meanwhile on open connections', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.answer)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const late = await begun(gateway.url, 'POST /mcp/files/read@1 HTTP/1.1\r\n')
    const probe = await begun(gateway.url, 'GET /readyz HTTP/1.1\r\n')
    const running = gateway.invoke('/mcp/files/slow@1')
    const answer = await held.next()
    const closing = gateway.handle.close()
    const answers = [
      await finished(late, 'host: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{}'),
      await finished(probe, 'host: 127.0.0.1\r\n\r\n'),
    ]
    answer.end('done')
    await running
    await closing
    for (const text of answers) {
      expect(text).to.match(/^HTTP\/1\.1 503 /)
      expect(text).to.match(/\r\nconnection: close\r\n/i)
      expect(text).to.contain('"error":"DRAINING"')
    }
    expect(gateway.records().map(({ error = 'none' }) => error)).to.have.members(['DRAINING', 'none'])
  })

  it('may be called twice', async () => {
    await using gateway = await startTestGateway({ targets: { files: 'http://127.0.0.1:1' } })
    await Promise.all([gateway.handle.close(), gateway.handle.close()])
  })

  it('records the outcome of a call whose caller disconnected', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.answer)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const gone = new AbortController()
    const running = fetch(`${gateway.url}/mcp/files/slow@1`, {
      method: 'POST',
      body: '{}',
      signal: gone.signal,
    })
    const answer = await held.next()
    gone.abort()
    await faultOf(running)
    answer.end('done')
    await gateway.handle.close()
    expect(gateway.records()[0]).to.include({ tool: 'slow@1', status: 'ok' })
  })
})

describe('reload', () => {
  it('uses the new policy for the calls that follow', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({ targets: { files: 'http://127.0.0.1:1' } })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(502)
    await gateway.handle.reload({ targets: { files: upstream.url } })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    expect(gateway.records()).to.have.length(2)
  })

  it('keeps the old policy when the new one is wrong', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    expect((await faultOf(gateway.handle.reload('targets: 7'))).message).to.contain('targets')
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
  })

  it('completes a call under the policy that it began with', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.answer)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const running = gateway.invoke('/mcp/files/slow@1')
    const answer = await held.next()
    await gateway.handle.reload({ targets: { other: upstream.url } })
    answer.end('done')
    expect((await running).status).to.equal(200)
    expect((await gateway.invoke('/mcp/files/slow@1')).status).to.equal(404)
  })
})

describe('createPipeline', () => {
  it('runs the same stages without a server', async () => {
    const records: object[] = []
    const pipeline = createPipeline({
      ...minimal,
      ...quiet,
      authn: { allowUnauthenticated: true },
      audit: { gatewayName: 'gw', gatewayVersion: '1', append: async (record) => void records.push(record) },
    })
    await pipeline.ready()
    const outcome = await pipeline.run(
      { server: 'files', tool: 'read', version: '1', args: { a: 1 } },
      async (call) => {
        const { canonicalArgs } = await call.request()
        return { kind: 'completed', status: 200, headers: {}, body: Buffer.from(canonicalArgs) }
      },
    )
    await pipeline.close()
    expect(outcome).to.deep.include({ kind: 'completed', status: 200, body: Buffer.from('{"a":1}') })
    expect(records[0]).to.include({ tool: 'read@1', server: 'files@1', status: 'ok' })
  })

  it('does not forward a call that a stage refuses', async () => {
    const pipeline = createPipeline({ ...minimal, ...quiet })
    await pipeline.ready()
    const outcome = await pipeline.run({ server: 'files', tool: 'read', args: {} }, () =>
      expect.fail('was forwarded'),
    )
    await pipeline.close()
    expect(outcome).to.include({ kind: 'denied', code: 'UNAUTHENTICATED' })
  })
})
