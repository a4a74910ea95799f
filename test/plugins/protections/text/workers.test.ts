// What others notice while the workers of a gateway search messages that were made to cost much.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { startWorkers } from '../../../support/gateway-process.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import { startUpstream } from '../../../support/upstream.js'
import { messageOf } from './costliest.js'

/** Messages of each attacker, who sends one after the other. */
const messages = [
  { tokens: ['\u202e', '&#65;', 'go '], tail: '', shape: 'short texts', length: 16 },
  { tokens: ['$a '], tail: ' id a=id', shape: 'long texts', length: 65_000 },
  { tokens: ["%'$", 'i\\d '], tail: '', shape: 'short texts', length: 8 },
] as const

/** Milliseconds of CPU time that the main thread of a process has used. */
function usedMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1_000_000
}

describe('a gateway of two workers that search costly arguments', function () {
  this.timeout(120_000)

  before(function () {
    if (process.platform === 'linux') return
    console.log('skipped: the CPU time of another process is known on Linux only')
    this.skip()
  })

  it('responds to /healthz in 50 ms, 95 times of 100', async () => {
    await using upstream = await startUpstream()
    using folder = new TemporaryDir()
    generateKeyFile(join(folder.path, 'key'))
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: { plain: upstream.url },
      audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: 'file://key' } },
      quotas: { adapter: 'lmdb' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      protections: { preset: 'guard' },
    }
    writeFileSync(join(folder.path, 'policy.json'), JSON.stringify(policy))
    const args = ['--policy', join(folder.path, 'policy.json'), '--dir', join(folder.path, 'state')]
    await using running = startWorkers(args)
    const pids = [await running.line('worker started'), await running.line('worker started')].map(
      ({ pid = 0 }) => pid,
    )
    const { url = '' } = await running.line('listening')
    const call = async (args: unknown): Promise<number> => {
      const response = await fetch(`${url}/mcp/plain/attack@1.0.0`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', connection: 'close' },
        body: JSON.stringify({ value: args }),
      })
      await response.arrayBuffer()
      return response.status
    }
    // The first calls load and compile code.
    for (let i = 0; i < 20; i++) await call(messages.map((recipe) => messageOf(recipe, 4_096)))
    const before = pids.map(usedMs)
    let isOver = false
    const attacks = Promise.all(
      Array.from({ length: 3 }, async () => {
        const statuses = new Set<number>()
        for (const recipe of messages) statuses.add(await call(messageOf(recipe, 300_000)))
        return [...statuses]
      }),
    ).finally(() => {
      isOver = true
    })
    // Other work of the machine makes responses late, which no worker's own time does.
    const waits: number[] = []
    while (!isOver) {
      const [began, used] = [performance.now(), pids.map(usedMs)]
      const response = await fetch(`${url}/healthz`, { headers: { connection: 'close' } })
      expect(response.status).to.equal(200)
      const ms = performance.now() - began
      waits.push(Math.min(ms, Math.max(...pids.map((pid, at) => usedMs(pid) - (used[at] ?? 0)))))
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    for (const status of (await attacks).flat()) expect(status).to.be.oneOf([200, 403])
    // Both have searched.
    for (const [at, pid] of pids.entries()) expect(usedMs(pid) - (before[at] ?? 0)).to.be.above(20)
    expect(waits.length).to.be.above(5)
    // Such a body is also parsed and hashed, which takes longer before the code of that is compiled.
    const [late = 0] = waits.toSorted((a, b) => b - a).slice(Math.ceil(waits.length / 20))
    expect(late, waits.map((ms) => ms.toFixed(0)).join(' ')).to.be.below(50)
  })
})
