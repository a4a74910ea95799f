import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { journalOf, sealedLog } from '../../plugins/audit/log/seal/sealed-log.js'
import { auditIn, startTestGateway } from '../../support/gateway.js'
import { startUpstream } from '../../support/upstream.js'

describe("a gateway's log", () => {
  it('has the origin of the policy, and continues with a new key after a reload', async () => {
    await using upstream = await startUpstream()
    let home = ''
    const identity = { gatewayName: 'gw', gatewayVersion: '1.0.0' }
    const keyRef = (name: string) => `file://${join(home, name)}`
    await using gateway = await startTestGateway((at) => {
      home = at
      return {
        targets: { files: upstream.url },
        audit: {
          ...identity,
          dir: join(at, 'audit'),
          signer: { keyRef: keyRef('key') },
          log: { origin: 'audit.example.com/prod' },
        },
      }
    })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    generateKeyFile(join(home, 'next'))
    const signer = { keyRef: keyRef('next'), retiringKeyRef: keyRef('key') }
    await gateway.handle.reload({ audit: { ...identity, dir: gateway.dir, signer } })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    await gateway.handle.close()
    const { sealed } = sealedLog(gateway.dir)
    expect([...sealed.values()].reduce((sum, count) => sum + count, 0)).to.equal(3)
    expect(new Set(gateway.records().map((record) => record.key_id)).size).to.equal(2)
    const [genesis, ...more] = journalOf(gateway.dir)
    expect(genesis?.['origin']).to.equal('audit.example.com/prod')
    expect(more.filter(({ kind }) => kind === 'key')).to.have.length(1)
  })

  it('warns on /readyz while new records cannot be sealed', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway((at) => ({
      targets: { files: upstream.url },
      audit: { ...auditIn(at), checkpointIntervalMs: 100, minFreeMb: 0 },
    }))
    const path = join(gateway.dir, 'audit.journal')
    const journal = readFileSync(path)
    rmSync(path)
    const warnings = async () => {
      await gateway.invoke('/mcp/files/read@1')
      const response = (await (await fetch(`${gateway.url}/readyz`)).json()) as { warnings?: string[] }
      return response.warnings?.join() ?? ''
    }
    while (!(await warnings()).includes('new records are not sealed: the log cannot be continued'));
    writeFileSync(path, journal)
    while ((await warnings()) !== '');
    await gateway.handle.close()
    sealedLog(gateway.dir)
  })
})
