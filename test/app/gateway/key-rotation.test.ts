import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseWitnessKey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { generateKeyFile, LocalDevSigner, rotateKey } from '@svc/plugin-audit/log'
import { readKeys, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { sealedLog } from '../../plugins/audit/log/seal/sealed-log.js'
import { vkeyOfLog, witnesses } from '../../plugins/audit/log/tools/witness/rig.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'

describe("the key of a gateway's log", () => {
  const dir = temporaryDir()
  const startWitness = witnesses(dir)
  const identity = { gatewayName: 'gw', gatewayVersion: '1.0.0', checkpointIntervalMs: 100 }

  /** Calls without a pause until `work` is done. Returns how many were made, all of which were served. */
  async function calling(gateway: TestGateway, work: () => Promise<unknown>): Promise<number> {
    let isDone = false
    let calls = 0
    const caller = async () => {
      while (!isDone) {
        expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
        calls++
      }
    }
    const callers = [caller(), caller(), caller()]
    try {
      await work()
    } finally {
      isDone = true
    }
    await Promise.all(callers)
    return calls
  }

  it('changes under load without a refused call, and witnesses accept the new key', async () => {
    await using upstream = await startUpstream()
    let home = ''
    await using gateway = await startTestGateway((at) => {
      home = at
      const audit = { ...identity, dir: join(at, 'audit'), signer: { keyRef: `file://${join(at, 'key')}` } }
      return { targets: { files: upstream.url }, audit }
    })
    const [oldKey, newKey] = ['key', 'next'].map((name) => join(home, name)) as [string, string]
    generateKeyFile(newKey)
    const [from, to] = [oldKey, newKey].map((path) => LocalDevSigner.fromKeyRef(`file://${path}`))
    if (from === undefined || to === undefined) throw new Error('no keys')
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    const { origin } = await verifyLog(gateway.dir)
    const witness = await startWitness('a', { trusted: `${vkeyOfLog(origin, from)}\n` })
    const log = { witnesses: [{ url: witness.url, key: witness.vkey }] }
    const reload = (signer: object) =>
      gateway.handle.reload({ audit: { ...identity, dir: gateway.dir, signer, log } })

    let calls = await calling(gateway, async () => {
      // docs/witness.md gives this order: the new key is added, both sign, the old one is removed.
      await rotateKey(gateway.dir, { from, to })
      await reload({ keyRef: `file://${newKey}`, retiringKeyRef: `file://${oldKey}` })
      for (let served = 0; served < 50; served++) await gateway.invoke('/mcp/files/read@1')
    })
    writeFileSync(join(dir.path, 'a.logs'), `${vkeyOfLog(origin, from)}\n${vkeyOfLog(origin, to)}\n`)
    calls += await calling(gateway, () => reload({ keyRef: `file://${newKey}` }))
    await rotateKey(gateway.dir, { from, to, retire: true })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    await gateway.handle.close()

    const { checkpoints, sealed } = sealedLog(gateway.dir)
    expect([...sealed.values()].reduce((sum, count) => sum + count, 0)).to.equal(calls + 54)
    expect(checkpoints.some(({ signatures }) => signatures === 3)).to.equal(true)
    const keys = (await readKeys(join(gateway.dir, 'public-keys'))).filter(
      ({ keyId }) => keyId === from.keyId,
    )
    const report = await verifyLog(gateway.dir, {
      keys,
      witnesses: { keys: [parseWitnessKey(witness.vkey)] },
    })
    expect(report.failures).to.deep.equal([])
    expect(report.cosigned?.size).to.equal(report.head?.size)
  })
})
