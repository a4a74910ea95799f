import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { issueMandates } from '@svc/plugin-ap2/dev'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { stringify } from 'yaml'
import { Running } from '../../support/gateway-process.js'
import { ofSuite } from '../../support/parts.js'
import { startRedis, until } from '../../support/redis.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'
import { args, issuance, section } from './rig.js'

describe('mandates of several gateways', () => {
  const home = ofSuite(() => new TemporaryDir())
  const redis = ofSuite(() => startRedis())
  const upstream = ofSuite(() => startUpstream())

  function gateway(name: string, more: object): Running {
    if (!existsSync(join(home.path, `${name}.key`))) generateKeyFile(join(home.path, `${name}.key`))
    const policy = join(home.path, `${name}.yaml`)
    writeFileSync(
      policy,
      stringify({
        tenant: 'acme',
        port: 1,
        targets: { shop: upstream.url },
        audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: `file://./${name}.key` } },
        entitlements: 'open',
        quotas: { adapter: 'memory' },
        authn: { allowUnauthenticated: true },
        ap2: section,
        ...more,
      }),
    )
    return new Running(['--policy', policy, '--port', '0', '--dir', join(home.path, name)])
  }

  async function bundle(agoSec = 0): Promise<string> {
    const issuedAt = Math.floor(Date.now() / 1000) - agoSec
    return JSON.stringify(await issueMandates('chain', { ...issuance, issuedAt }))
  }

  const statusAt = async (url: string | undefined, mandates: string): Promise<number> => {
    const response = await fetch(`${url}/mcp/shop/buy@1.0.0`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-ap2-bundle': mandates },
      body: JSON.stringify(args),
    })
    await response.arrayBuffer()
    return response.status
  }

  it('are used once by two processes that share a Redis', async () => {
    const dedupe = { redisUrl: redis.url }
    await using first = gateway('first', { dedupe })
    await using second = gateway('second', { dedupe })
    const urls = [(await first.line('listening')).url, (await second.line('listening')).url]
    const mandates = await bundle()
    expect(await statusAt(urls[0], mandates)).to.equal(200)
    expect(await statusAt(urls[1], mandates)).to.equal(403)
    const racing = await bundle()
    const statuses = await Promise.all(
      Array.from({ length: 10 }, (_, index) => statusAt(urls[index % 2], racing)),
    )
    expect(statuses.filter((status) => status === 200)).to.have.lengthOf(1)
    expect(upstream.calls).to.have.lengthOf(2)
  })

  it('are refused if they are older than a loss of what Redis had, used or not, and newer ones are taken', async () => {
    await using running = gateway('fourth', {
      dedupe: { redisUrl: redis.url, failureMode: 'open', leaseSec: 1 },
    })
    const { url } = await running.line('listening')
    const [used, unused] = [await bundle(600), await bundle(600)]
    expect(await statusAt(url, used)).to.equal(200)
    await redis.send('FLUSHALL')
    expect(await statusAt(url, used)).to.equal(503)
    expect(await statusAt(url, unused)).to.equal(503)
    // Clocks may differ by `skewSec`, so the loss is moved into the past, and is still after the two were issued.
    const spaces = async () => (await redis.send('KEYS', '*{claims-*#space')) as string[]
    await until(async () => (await spaces()).length === 16)
    for (const space of await spaces()) await redis.send('HINCRBY', space, 'began', -300_000)
    expect(await statusAt(url, unused)).to.equal(503)
    expect(await statusAt(url, await bundle())).to.equal(200)
  })

  it('are remembered on disk without a section dedupe', async () => {
    const mandates = await bundle()
    for (const expected of [200, 403]) {
      await using running = gateway('third', {})
      const { url } = await running.line('listening')
      expect(await statusAt(url, mandates)).to.equal(expected)
      running.child.kill('SIGKILL')
      await running.exit
    }
  })
})
