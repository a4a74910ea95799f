import { expect } from 'chai'
import { SessionTable } from 'svc-sdk/internal/mcp/session-table'

const days = 86_400_000

interface Session {
  readonly name: string
  isIdle: boolean
}

describe('a table of sessions', () => {
  const clock = { time: 0, monotonic: () => clock.time }
  let ended: string[]
  let table: SessionTable<Session>

  beforeEach(() => {
    ended = []
    table = new SessionTable({
      clock,
      peer: 'a server',
      max: 3,
      maxPerOwner: 2,
      mayEnd: ({ isIdle }) => isIdle,
      onEnd: ({ name }) => ended.push(name),
    })
  })

  const add = (name: string, owner: string | undefined, isIdle = true) =>
    table.add(name, owner, { name, isIdle })
  const names = () => table.all().map(({ name }) => name)

  it('evicts the session that an owner used longest ago for its next one', () => {
    add('a', 'ada')
    add('b', 'ada')
    table.use('a', 'ada')
    add('c', 'ada')
    expect(ended).to.deep.equal(['b'])
    expect(names()).to.deep.equal(['a', 'c'])
  })

  it('evicts the session that was used longest ago if all owners together have too many', () => {
    for (const owner of ['ada', 'bob', undefined]) add(String(owner), owner)
    add('d', 'dan')
    expect(ended).to.deep.equal(['ada'])
  })

  it('never evicts a session in use, and refuses a new one if all are in use', () => {
    add('a', 'ada', false)
    add('b', 'ada')
    add('c', 'ada')
    expect(ended).to.deep.equal(['b'])
    table.add('c', 'ada', { name: 'c', isIdle: false })
    expect(() => add('d', 'ada')).to.throw('The caller has as many sessions of a server as allowed')
    add('e', 'bob', false)
    expect(() => add('f', 'dan'))
      .to.throw('All callers together have')
      .with.property('code', 'RATE_LIMITED')
    expect(names()).to.deep.equal(['a', 'c', 'e'])
  })

  it('does not show the session of one owner to another', () => {
    add('a', 'ada')
    expect(table.use('a', 'bob')).to.equal(undefined)
    expect(table.use('a', 'ada')).to.include({ name: 'a' })
  })

  it('ends sessions that were not used for over a week, unless they are in use', () => {
    add('a', 'ada')
    const used = add('b', 'bob', false)
    clock.time += 8 * days
    expect(table.use('a')).to.equal(undefined)
    expect(table.use('b')).to.equal(used)
    add('c', 'ada')
    clock.time += 8 * days
    add('d', 'dan')
    expect(ended).to.deep.equal(['a', 'c'])
  })
})
