import { definePlugin, denied, type Plugin, slot } from '@svc/core'
import { checkOrder, defaultOrder } from '@svc/core/policy'
import { expect } from 'chai'
import { builtinPlugins } from 'svc-sdk/internal/policy/plugins'
import { z } from 'zod'

const who = slot<string>('who')
const what = slot<string>('what')
const audit = plugin('audit', { phase: 'record' })

function plugin(
  name: string,
  more: Partial<Pick<Plugin, 'uses' | 'provides' | 'phase' | 'reasons'>> = {},
): Plugin {
  return definePlugin({
    name,
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.strictObject({}),
    ...more,
    create: () => ({ handle: async () => denied('INTERNAL', 'not run in this test') }),
  })
}

const messages = (order: string[], plugins: Plugin[]): string[] =>
  checkOrder(order, plugins).map(({ message }) => message)

describe('checkOrder', () => {
  it('accepts an order whose slots are set before they are read', () => {
    const plugins = [plugin('audit'), plugin('authn', { provides: [who] }), plugin('rules', { uses: [who] })]
    expect(checkOrder(['audit', 'authn', 'rules'], plugins)).to.deep.equal([])
  })

  it('names both stages when a slot is read too early', () => {
    const plugins = [plugin('authn', { provides: [who] }), plugin('rules', { uses: [who] })]
    expect(messages(['rules', 'authn'], plugins)).to.deep.equal([
      'stage "rules" reads the slot "who" before "authn" fills it; put "authn" before "rules"',
    ])
  })

  it('allows no stage between audit and the stage that redacts its records', () => {
    const plugins = [audit, plugin('privacy', { phase: 'redaction' }), plugin('authn')]
    expect(messages(['audit', 'privacy', 'authn'], plugins)).to.deep.equal([])
    expect(messages(['audit', 'authn', 'privacy'], plugins)).to.deep.equal([
      'stage "authn" is outside "privacy"; put "privacy" directly after "audit", so that every record is redacted',
    ])
  })

  it('allows a slot that no stage sets', () => {
    const user = plugin('user', { uses: [who] })
    expect(messages(['user'], [user])).to.deep.equal([])
  })

  it('refuses two stages that set one slot', () => {
    const plugins = [plugin('a', { provides: [what] }), plugin('b', { provides: [what] })]
    expect(messages(['a', 'b'], plugins)).to.deep.equal(['stages "a" and "b" both fill the slot "what"'])
  })

  it('allows all stages that ship in one policy', () => {
    const plugins: Plugin[] = [...builtinPlugins]
    expect(messages(defaultOrder(plugins), plugins)).to.deep.equal([])
  })

  it('allows a custom stage to set the slot instead of the built-in one', () => {
    const plugins = [plugin('my-login', { provides: [who] }), plugin('rules', { uses: [who] })]
    expect(messages(['my-login', 'rules'], plugins)).to.deep.equal([])
  })

  it('refuses anything outside audit', () => {
    expect(messages(['authn', 'audit'], [audit, plugin('authn')])).to.deep.equal([
      'stage "authn" is outside "audit"; put "audit" first, so that every call is recorded',
    ])
  })

  const enforcement = plugin('enforcement', { phase: 'decision' })
  const judged: [what: string, more: Parameters<typeof plugin>[1], accepted: boolean][] = [
    ['without a phase', {}, false],
    ['of an earlier phase', { phase: 'evaluation' }, false],
    ['of a later phase', { phase: 'metering' }, true],
    ['of a later phase that declares reasons', { phase: 'metering', reasons: ['too_hot'] }, false],
  ]
  for (const [what, more, accepted] of judged) {
    it(`${accepted ? 'allows' : 'refuses'} a stage ${what} after the verdict`, () => {
      const plugins = [audit, enforcement, plugin('probe', more)]
      expect(messages(['audit', 'probe', 'enforcement'], plugins)).to.deep.equal([])
      const found = messages(['audit', 'enforcement', 'probe'], plugins)
      expect(found.length === 0).to.equal(accepted)
      const rest =
        /^stage "probe" can report findings, and "enforcement" has decided before it; put "probe" before "enforcement"/
      for (const message of found) expect(message).to.match(rest)
    })
  }

  it('reports unknown, repeated and missing stages, all at once', () => {
    const found = messages(['audit', 'audit', 'nosuch'], [plugin('audit'), plugin('quotas')])
    expect(found).to.deep.equal([
      'stage "audit" is listed twice; a stage runs once',
      'no stage "nosuch" is configured; the stages here are audit, quotas',
      'stage "quotas" is configured but not in the order; list it, or leave its section out',
    ])
  })
})

describe('defaultOrder', () => {
  const enforcement = plugin('enforcement', { phase: 'decision' })
  const quotas = plugin('quotas', { phase: 'metering' })

  it('is by phase, for any order of registration', () => {
    expect(defaultOrder([quotas, enforcement, audit])).to.deep.equal(['audit', 'enforcement', 'quotas'])
  })

  it('places a stage that blocks directly inside the one that sets what it reads, whatever its phase', () => {
    const blocks = plugin('blocks', { phase: 'blocking', uses: [who] })
    const login = plugin('login', { provides: [who] })
    const limits = plugin('limits', { phase: 'authorization' })
    expect(defaultOrder([blocks, limits, login, audit])).to.deep.equal(['audit', 'limits', 'login', 'blocks'])
    expect(defaultOrder([blocks, limits, audit]), 'without such a stage').to.deep.equal([
      'audit',
      'blocks',
      'limits',
    ])
  })

  it('keeps the order of registration within a phase', () => {
    expect(defaultOrder([plugin('b'), plugin('a'), audit])).to.deep.equal(['audit', 'b', 'a'])
  })

  it('places a stage without a phase before those that evaluate and decide on its findings', () => {
    const runtime = plugin('runtime', { phase: 'evaluation' })
    const order = defaultOrder([audit, runtime, enforcement, plugin('freeze')])
    expect(order).to.deep.equal(['audit', 'freeze', 'runtime', 'enforcement'])
  })
})
