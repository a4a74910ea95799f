import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile, type SignedEnvelope } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { Running } from '../../support/gateway-process.js'
import { signalled } from '../../support/signalled.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

describe('a gateway that is killed during calls', () => {
  const home = temporaryDir()
  beforeEach(() => {
    generateKeyFile(join(home.path, 'key'))
  })

  const log = () => join(home.path, 'state/audit')

  function records(): SignedEnvelope[] {
    return readdirSync(log())
      .filter((name) => /^audit-.*\.ndjson$/.test(name))
      .flatMap((name) => readFileSync(join(log(), name), 'utf8').split('\n').filter(Boolean))
      .map((line) => JSON.parse(line) as SignedEnvelope)
  }

  function gateway(upstream: TestUpstream): Running {
    const policy = join(home.path, 'policy.yaml')
    writeFileSync(
      policy,
      `tenant: acme
port: 1
targets: { files: "${upstream.url}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements: open
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
`,
    )
    return new Running(['--policy', policy, '--port', '0', '--dir', join(home.path, 'state')])
  }

  /** Sends these calls, waits until `arriving` of them have reached the upstream, and kills the gateway. */
  async function killAmid(paths: readonly string[], arriving: number): Promise<void> {
    let arrived = 0
    const { happened: waiting, resolve: allArrived } = signalled()
    await using upstream = await startUpstream((call, response) => {
      if (call.path.includes('quick')) response.end('{}')
      else if (++arrived === arriving) allArrived()
    })
    await using running = gateway(upstream)
    const { url } = await running.line('listening')
    const responses = paths.map((path) => fetch(`${url}/mcp/files/${path}`, { method: 'POST', body: '{}' }))
    const ended = Promise.allSettled(responses)
    await waiting
    await Promise.all(responses.filter((_response, i) => paths[i]?.includes('quick')))
    running.child.kill('SIGKILL')
    await running.exit
    await ended
  }

  it('leaves intents, from which the next gateway records an unknown outcome once for each unrecorded call', async () => {
    await killAmid(['delete@1', 'write_quick@1', 'send@2'], 2)
    expect(records().map(({ tool }) => tool)).to.deep.equal(['write_quick@1'])
    await using upstream = await startUpstream()
    for (let start = 0; start < 2; start++) {
      await using running = gateway(upstream)
      await running.line('listening')
      running.child.kill('SIGTERM')
      expect(await running.exit).to.equal(0)
    }
    const [, ...unknown] = records()
    expect(unknown.map(({ tool, status, error }) => ({ tool, status, error }))).to.have.deep.members([
      { tool: 'delete@1', status: 'error', error: 'OUTCOME_UNKNOWN' },
      { tool: 'send@2', status: 'error', error: 'OUTCOME_UNKNOWN' },
    ])
    expect(upstream.calls).to.deep.equal([])
    expect((await verifyLog(log())).verdict).to.equal('intact')
    expect(readdirSync(join(log(), 'intents'))).to.deep.equal(['.lock'])
  })

  it('leaves intents that two gateways record once if they start at the same time', async () => {
    await killAmid(
      Array.from({ length: 8 }, (_, i) => `delete@${i}`),
      8,
    )
    await using upstream = await startUpstream()
    await using one = gateway(upstream)
    await using other = gateway(upstream)
    await Promise.all([one.line('listening'), other.line('listening')])
    for (const { child } of [one, other]) child.kill('SIGTERM')
    expect(await Promise.all([one.exit, other.exit])).to.deep.equal([0, 0])
    expect(records().map(({ tool }) => tool)).to.have.members(
      Array.from({ length: 8 }, (_, i) => `delete@${i}`),
    )
  })
})
