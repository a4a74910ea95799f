import { join } from 'node:path'
import { bind, type Signer, tokens } from '@svc/core'
import { LocalDevSigner, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { startUpstream } from '../../support/upstream.js'

const IN_FLIGHT = 64
// The number of rounds within which so many simultaneous calls become one batch.
const PATIENCE = 200

/** A signer that counts the threads that got its key. */
function countingSigner() {
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
  const counting = {
    keyId: signer.keyId,
    publicKey: signer.publicKey,
    sign: (data: Uint8Array) => signer.sign(data),
    verify: (data: Uint8Array, sig: Uint8Array) => signer.verify(data, sig),
    threads: 0,
    keyForThread: () => {
      counting.threads++
      return signer.keyForThread()
    },
  }
  return counting
}

/** The calls that it took until `until` held. */
async function callUntil(gateway: TestGateway, until: () => boolean): Promise<number> {
  for (let round = 1; round <= PATIENCE; round++) {
    const calls = Array.from({ length: IN_FLIGHT }, () => gateway.invoke('/mcp/files/read@1'))
    for (const { status } of await Promise.all(calls)) expect(status).to.equal(200)
    if (until()) return round * IN_FLIGHT
  }
  return expect.fail('what the test waits for did not come')
}

describe('the signing thread of a gateway', () => {
  it('survives a reload, and every call and the reload have one record with a valid signature', async () => {
    const signer = countingSigner()
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway((home) => ({
      targets: { files: upstream.url },
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir: join(home, 'audit'),
        threads: 'on',
      },
      configure: (container) => bind<Signer>(container, tokens.Signer, { useValue: signer }),
    }))
    let calls = await callUntil(gateway, () => signer.threads > 0)
    const running = callUntil(gateway, () => true)
    await gateway.handle.reload({ targets: { files: upstream.url, other: upstream.url } })
    calls += (await running) + (await callUntil(gateway, () => true))
    await gateway.handle.close()
    expect(signer.threads).to.equal(1)
    const keys = [verifierFromPublicKey(signer.publicKey)]
    expect(await verifyLog(gateway.dir, { keys })).to.include({ verdict: 'intact', verified: calls + 1 })
  })
})
