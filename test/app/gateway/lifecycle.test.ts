import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Appender, bind, tokens } from '@svc/core'
import { expect } from 'chai'
import { createPipeline, PolicyError, startGatewayServer } from 'svc-sdk'
import { recordingTo, startTestGateway } from '../../support/gateway.js'
import { heldUpstream } from '../../support/held-upstream.js'
import { keepingLogger } from '../../support/logger.js'
import { rejectionOf } from '../../support/rejection.js'
import { startUpstream } from '../../support/upstream.js'

const minimal = {
  port: 0,
  tenant: 'acme',
  targets: { files: 'http://127.0.0.1:1' },
  quotas: { adapter: 'memory' as const },
  entitlements: 'open' as const,
  audit: { gatewayName: 'gw', gatewayVersion: '1', append: async () => undefined },
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

  it('rejects ready() if the port is in use, and says what to do', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => holder.once('listening', resolve))
    const address = holder.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const handle = startGatewayServer({ ...minimal, ...quiet, port })
    const error = await rejectionOf(handle.ready())
    expect(error).to.have.property('code', 'EADDRINUSE')
    expect(error.message).to.equal(
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
    const error = await rejectionOf(
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
    expect(error.message).to.match(/^stage audit did not start: /)
    rmSync(home, { recursive: true })
  })

  it('rejects ready() when a plugin module cannot be imported, and names it', async () => {
    const handle = startGatewayServer({
      ...minimal,
      ...quiet,
      policyObject: { plugins: [{ use: './nosuch.js' }] },
    })
    expect((await rejectionOf(handle.ready())).message).to.contain('./nosuch.js')
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

  it('withholds the response of a call that ran, with an error that says so', async () => {
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

  it('refuses calls before they are sent while the writer reports that it cannot write', async () => {
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

  it('leaves the gateway ready while the writer warns, and is named in the warnings of /readyz', async () => {
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

  it('does not stop calls with failure_mode: continue, and the loss is counted', async () => {
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

describe('reload', () => {
  it('uses the new policy for the calls that follow', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({ targets: { files: 'http://127.0.0.1:1' } })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(502)
    await gateway.handle.reload({ targets: { files: upstream.url } })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    expect(gateway.records().map(({ tool }) => tool)).to.deep.equal(['read@1', 'policy/reload@1', 'read@1'])
  })

  it('keeps the old policy when the new one is wrong', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    expect((await rejectionOf(gateway.handle.reload('targets: 7'))).message).to.contain('targets')
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
  })

  it('completes a call under the policy that it began with', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.response)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const running = gateway.invoke('/mcp/files/slow@1')
    const response = await held.next()
    await gateway.handle.reload({ targets: { other: upstream.url } })
    response.end('done')
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
