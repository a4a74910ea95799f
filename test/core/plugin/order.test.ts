import { definePlugin, denied, type Plugin, redactor, type Slot, slot } from '@svc/core'
import { checkOrder, placeInOrder } from '@svc/core/policy'
import { expect } from 'chai'
import { z } from 'zod'

const who = slot<string>('who')
const what = slot<string>('what')

function plugin(
  name: string,
  slots: Partial<Record<'requires' | 'uses' | 'provides', Slot<unknown>[]>> = {},
  before?: string,
): Plugin {
  return definePlugin({
    name,
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.strictObject({}),
    ...slots,
    ...(before === undefined ? {} : { before }),
    create: () => ({ handle: async () => denied('INTERNAL', 'not run in this test') }),
  })
}

const messages = (order: string[], plugins: Plugin[]): string[] =>
  checkOrder(order, plugins).map(({ message }) => message)

describe('checkOrder', () => {
  it('accepts an order whose slots are filled before they are read', () => {
    const plugins = [
      plugin('audit'),
      plugin('authn', { provides: [who] }),
      plugin('rules', { requires: [who] }),
    ]
    expect(checkOrder(['audit', 'authn', 'rules'], plugins)).to.deep.equal([])
  })

  it('names both stages when a slot is read too early', () => {
    const plugins = [plugin('authn', { provides: [who] }), plugin('rules', { requires: [who] })]
    expect(messages(['rules', 'authn'], plugins)).to.deep.equal([
      'stage "rules" reads the slot "who" before "authn" fills it; put "authn" before "rules"',
    ])
  })

  it('lets no stage stand between audit and what redacts its records', () => {
    const plugins = [plugin('audit'), plugin('privacy', { provides: [redactor] }), plugin('authn')]
    expect(messages(['audit', 'privacy', 'authn'], plugins)).to.deep.equal([])
    expect(messages(['audit', 'authn', 'privacy'], plugins)).to.deep.equal([
      'stage "authn" stands outside "privacy"; put "privacy" directly after "audit", so that no record tells who called',
    ])
  })

  it('refuses a required slot that nobody fills', () => {
    expect(messages(['rules'], [plugin('rules', { requires: [who] })])).to.deep.equal([
      'stage "rules" reads the slot "who", which no stage fills',
    ])
  })

  it('lets a slot that is only used stay empty, but not be filled too late', () => {
    const user = plugin('user', { uses: [who] })
    expect(messages(['user'], [user])).to.deep.equal([])
    expect(messages(['user', 'authn'], [user, plugin('authn', { provides: [who] })])).to.have.length(1)
  })

  it('refuses two stages that fill one slot', () => {
    const plugins = [plugin('a', { provides: [what] }), plugin('b', { provides: [what] })]
    expect(messages(['a', 'b'], plugins)).to.deep.equal(['stages "a" and "b" both fill the slot "what"'])
  })

  it('lets a stage of the user fill the slot in place of ours', () => {
    const plugins = [plugin('my-login', { provides: [who] }), plugin('rules', { requires: [who] })]
    expect(messages(['my-login', 'rules'], plugins)).to.deep.equal([])
  })

  it('refuses anything outside audit', () => {
    expect(messages(['authn', 'audit'], [plugin('audit'), plugin('authn')])).to.deep.equal([
      'stage "authn" stands outside "audit"; put "audit" first, so that whatever happens is recorded',
    ])
  })

  it('refuses unknown, repeated and forgotten stages, all at once', () => {
    const found = messages(['audit', 'audit', 'nosuch'], [plugin('audit'), plugin('quotas')])
    expect(found).to.deep.equal([
      'stage "audit" is listed twice; a stage runs once',
      'no stage "nosuch" is configured; the stages here are audit, quotas',
      'stage "quotas" is configured but not in the order; list it, or leave its section out',
    ])
  })
})

describe('placeInOrder', () => {
  const order = ['audit', 'authn', 'enforcement', 'quotas']

  it('keeps the default order and leaves out what does not run', () => {
    expect(placeInOrder(order, [plugin('quotas'), plugin('audit')])).to.deep.equal(['audit', 'quotas'])
  })

  it('places a stage it does not know before enforcement, where its findings are judged', () => {
    const plugins = [plugin('audit'), plugin('enforcement'), plugin('freeze')]
    expect(placeInOrder(order, plugins)).to.deep.equal(['audit', 'freeze', 'enforcement'])
  })

  it('places it before a runtime that judges, which is to know of its findings', () => {
    const withRuntime = ['audit', 'runtime', 'enforcement']
    const plugins = [plugin('audit'), plugin('runtime'), plugin('enforcement'), plugin('freeze')]
    expect(placeInOrder(withRuntime, plugins)).to.deep.equal(['audit', 'freeze', 'runtime', 'enforcement'])
  })

  it('places it before the stage it asks for', () => {
    const plugins = [plugin('audit'), plugin('enforcement'), plugin('quotas'), plugin('cache', {}, 'quotas')]
    expect(placeInOrder(order, plugins)).to.deep.equal(['audit', 'enforcement', 'cache', 'quotas'])
  })

  it('places it innermost when that stage does not run', () => {
    expect(placeInOrder(order, [plugin('audit'), plugin('freeze')])).to.deep.equal(['audit', 'freeze'])
  })
})
