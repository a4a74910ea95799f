import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { policyChanges } from 'svc-sdk/internal/policy-tools/diff/diff'
import { ofEachTest } from '../../support/parts.js'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { base, loadPolicyText } from './generated-policies.js'

const counted = globalThis as { judgedCalls?: number }

/** A stage of another author, which counts what it judges. */
const countingStage = (decision: string) => `
import { z } from '${import.meta.resolve('zod')}'
import { identity } from '${import.meta.resolve('@svc/core')}'
export const plugin = {
  name: 'counting', version: '1.0.0', core: '^1.0.0', schema: z.strictObject({}), uses: [identity],
  create: () => ({
    effects: 'none',
    handle(call, next) {
      globalThis.judgedCalls = (globalThis.judgedCalls ?? 0) + 1
      ${decision}
      return next()
    },
  }),
}
export default plugin
`

describe('svc policy diff of many tenants', () => {
  const folder = ofEachTest(() => new TemporaryDir())
  beforeEach(() => {
    counted.judgedCalls = 0
  })

  const tools = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ server: 'a', name: `t${index}`, version: '1' }))

  /** Every tenant may use the same tools, and every tenth one more under the second policy. */
  async function compare(tenants: number, count: number, more: object, maxCalls?: number) {
    const load = async (isSecond: boolean) => {
      const entries = Array.from({ length: tenants }, (_, index) => {
        const isWider = isSecond && index % 10 === 0
        return [`tenant-${index}`, { plan: 'p', allowlist: isWider ? ['a/t1*', 'a/t7'] : ['a/t1*'] }]
      })
      const entitlements = { default_plan: 'p', plans: { p: {} }, tenants: Object.fromEntries(entries) }
      const policy = await loadPolicyText(folder.path, JSON.stringify({ ...base, entitlements, ...more }))
      if (policy === undefined) throw new Error('the policy has a mistake')
      return policy
    }
    const [before, after] = [await load(false), await load(true)]
    const place = { baseDir: folder.path, env: {} }
    const limit = maxCalls === undefined ? {} : { maxCalls }
    return policyChanges(before, after, { place, tools: tools(count), ...limit })
  }

  it('runs the stages behind the lists once for all tenants to whom these give the same', async () => {
    writeFileSync(join(folder.path, 'stage.mjs'), countingStage(''))
    const changes = await compare(50, 20, { plugins: [{ use: './stage.mjs' }], counting: {} })
    const gaining = changes.flatMap(({ effect, tenant }) => (effect === 'gain' ? [tenant] : []))
    expect(gaining).to.deep.equal([0, 10, 20, 30, 40].map((index) => `tenant-${index}`))
    // Of 50 tenants and more than 20 tools under two policies.
    expect(counted.judgedCalls).to.be.within(40, 300)
  })

  it('runs them for each tenant if one of them reads the tenant', async () => {
    const finding = "{ reason: 'tool_in_denylist', stage: 'counting' }"
    const decision = `if (call.get(identity)?.tenant === 'tenant-10') call.addFinding(${finding})`
    writeFileSync(join(folder.path, 'stage.mjs'), countingStage(decision))
    const changes = await compare(20, 5, { plugins: [{ use: './stage.mjs' }], counting: {} })
    const gaining = changes.flatMap(({ effect, tenant }) => (effect === 'gain' ? [tenant] : []))
    expect(gaining).to.deep.equal(['tenant-0'])
    expect(counted.judgedCalls).to.be.above(2 * 20 * 5)
  })

  it('says that it left out callers beyond its limit', async () => {
    const changes = await compare(20, 5, {}, 20)
    const more = { effect: 'unknown', subject: 'callers', detail: 'too many to compare all here' } as const
    expect(changes).to.deep.include(more)
  })

  // 1,000 tenants by `npm run chaos:properties`.
  const tenants = Math.min(1_000, propertyRuns(200))
  const maxCpuMs = 4_000 + 6 * tenants
  it(`takes at most ${maxCpuMs / 1_000} s of CPU for ${tenants} tenants and 200 tools, and lets others have their turn`, async function () {
    this.timeout(300_000)
    const turns = { count: 0, isOver: false }
    const turn = () => {
      turns.count++
      if (!turns.isOver) setImmediate(turn)
    }
    setImmediate(turn)
    const { user } = process.cpuUsage()
    const changes = await compare(tenants, 200, {})
    const cpuMs = (process.cpuUsage().user - user) / 1_000
    turns.isOver = true
    expect(changes.filter(({ effect }) => effect === 'gain')).to.have.lengthOf(tenants / 10)
    expect(turns.count).to.be.above(tenants / 5)
    // CPU time, as other processes may run, and twice what an idle machine takes.
    expect(cpuMs).to.be.below(maxCpuMs)
  })
})
