import { isDeclaredHarmless, isSideEffecting, sideEffectsOf } from '@svc/core'
import type { JsonValue } from '@svc/core/json'
import { expect } from 'chai'

const tool = (name: string, args: JsonValue = {}) => ({
  kind: 'tool' as const,
  name,
  reference: `mcp://files/${name}@1`,
  args,
})

describe('a call counts as side-effecting', () => {
  for (const name of [
    'delete_file',
    'sendMail',
    'HTTPPost',
    'file.write',
    'run',
    'SET-flag',
    'exec2',
    'order/new',
  ])
    it(`by a word of the name ${name}`, () => {
      expect(isSideEffecting(tool(name))).to.equal(true)
    })

  for (const name of ['read_file', 'settings', 'updated', 'reorder', 'address', 'bookmarks', 'list'])
    it(`not by a part of a word, as in ${name}`, () => {
      expect(isSideEffecting(tool(name))).to.equal(false)
    })

  for (const method of ['POST', 'delete', 'PROPFIND', '', null, 7, ['GET']] as JsonValue[])
    it(`by an argument method that is ${JSON.stringify(method)}`, () => {
      expect(isSideEffecting(tool('fetch', { method }))).to.equal(true)
    })

  for (const args of [
    { method: 'GET' },
    { method: 'head' },
    { method: 'OPTIONS' },
    { body: { method: 'POST' } },
    [],
  ])
    it(`not by the arguments ${JSON.stringify(args)}`, () => {
      expect(isSideEffecting(tool('fetch', args))).to.equal(false)
    })

  it('and is declared harmless by the policy before an annotation, by no name, and as a tool alone', () => {
    const read = tool('read_file')
    const no = () => false
    expect(isDeclaredHarmless(read)).to.equal(false)
    expect(isDeclaredHarmless(read, { policy: no })).to.equal(true)
    expect(isDeclaredHarmless(read, { annotations: no })).to.equal(true)
    expect(isDeclaredHarmless(read, { policy: () => true, annotations: no })).to.equal(false)
    expect(isDeclaredHarmless({ ...read, kind: 'prompt' }, { policy: no })).to.equal(false)
  })

  it('never as a prompt, a resource or a part of the protocol', () => {
    for (const kind of ['prompt', 'resource', 'protocol'] as const)
      expect(isSideEffecting({ ...tool('delete', { method: 'POST' }), kind })).to.equal(false)
  })

  for (const [name, effects] of [
    ['format_disk', 'unknown'],
    ['wipe', 'unknown'],
    ['nuke_all', 'unknown'],
    ['shutdown_cluster', 'unknown'],
    ['terminate_instance', 'unknown'],
    ['kill_switch', 'unknown'],
    ['reboot', 'unknown'],
    ['eliminar_cliente', 'unknown'],
    ['ping', 'unknown'],
    ['data_get', 'unknown'],
    ['getaway', 'unknown'],
    ['', 'unknown'],
    ['get_customer', 'harmless'],
    ['listFiles', 'harmless'],
    ['READ', 'harmless'],
    ['search-web', 'harmless'],
    ['find_all', 'harmless'],
    ['fetch', 'harmless'],
    ['describe.table', 'harmless'],
    ['count_rows', 'harmless'],
    ['get_and_delete', 'effect'],
    ['find_orders_set', 'effect'],
  ] as const)
    it(`is ${effects} by the name ${JSON.stringify(name)}`, () => {
      expect(sideEffectsOf(tool(name))).to.equal(effects)
      const asEffect = isSideEffecting(tool(name), { unknown: 'effect' })
      expect([isSideEffecting(tool(name)), asEffect]).to.deep.equal([
        effects === 'effect',
        effects !== 'harmless',
      ])
    })

  it('is unknown to nobody whom the policy or an annotation tells', () => {
    const wipe = tool('wipe')
    expect(sideEffectsOf(wipe, { policy: () => true })).to.equal('effect')
    expect(sideEffectsOf(wipe, { policy: () => false })).to.equal('harmless')
    expect(sideEffectsOf(wipe, { annotations: () => false, unknown: 'effect' })).to.equal('harmless')
    expect(sideEffectsOf({ ...wipe, args: { method: 'GET' } })).to.equal('unknown')
    expect(sideEffectsOf({ ...wipe, args: { method: 'POST' } })).to.equal('effect')
  })

  it('by the policy first, then by annotations, then by its name', () => {
    const yes = () => true
    const no = () => false
    const silent = () => undefined
    const remove = tool('delete')
    expect(isSideEffecting(remove, { policy: no, annotations: yes })).to.equal(false)
    expect(isSideEffecting(remove, { policy: silent, annotations: no })).to.equal(false)
    expect(isSideEffecting(remove, { policy: silent, annotations: silent })).to.equal(true)
    expect(isSideEffecting(tool('read'), { policy: yes })).to.equal(true)
  })
})
