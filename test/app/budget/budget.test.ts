import { expect } from 'chai'
import { Budget } from 'svc-sdk/internal/budget/budget'
import { responseBudget } from 'svc-sdk/internal/budget/process-budgets'

describe('a budget', () => {
  it('serves the owner that uses least first, and of its members the one that uses least', async () => {
    const budget = new Budget({ limit: 3 })
    const order: string[] = []
    const held: (() => void)[] = []
    const take = (owner: string, member = ''): void =>
      void budget.take({ owner, member }, 1).then((release) => {
        order.push(owner + member)
        held.push(release)
      })
    for (const member of ['1', '1', '1', '1', '2']) take('a', member)
    take('b')
    await settled()
    expect(order).to.deep.equal(['a1', 'a1', 'a1'])
    for (let time = 0; time < 3; time++) {
      held.shift()?.()
      await settled()
    }
    expect(order.slice(3)).to.deep.equal(['b', 'a2', 'a1'])
  })

  it('serves other owners and members while one waits at its own limit', async () => {
    const budget = new Budget({ limit: 4, limitOfOwner: 3, limitOfMember: 2 })
    expect(budget.takeNow({ owner: 'a', member: '1' }, 2)).to.be.a('function')
    expect(budget.takeNow({ owner: 'a', member: '1' }, 1)).to.equal(undefined)
    expect(budget.takeNow({ owner: 'a', member: '2' }, 1)).to.be.a('function')
    expect(budget.takeNow({ owner: 'a', member: '3' }, 1)).to.equal(undefined)
    expect(budget.takeNow({ owner: 'b' }, 1)).to.be.a('function')
  })

  it('of messages has room for another server of a tenant, if one holds as much as it can', () => {
    const held: (() => void)[] = []
    const take = (member: string) => responseBudget.takeNow({ owner: 'tenant', member }, 2 ** 24)
    for (let more = take('one'); more !== undefined; more = take('one')) held.push(more)
    const other = take('another')
    expect(other).to.be.a('function')
    for (const release of held) release()
    other?.()
  })

  it('serves an amount over a limit alone, before smaller ones that came later', async () => {
    const budget = new Budget({ limit: 10 })
    const release = budget.takeNow({ owner: 'a' }, 1)
    const large = budget.take({ owner: 'b' }, 100)
    expect(budget.takeNow({ owner: 'c' }, 1)).to.equal(undefined)
    release?.()
    const releaseLarge = await large
    expect(budget.use).to.deep.equal({ used: 10, limit: 10, largest: 10, waiting: 0 })
    releaseLarge()
    releaseLarge()
    expect(budget.use.used).to.equal(0)
  })

  it('rejects a waiting amount with the reason of its signal', async () => {
    const budget = new Budget({ limit: 1 })
    const release = budget.takeNow({ owner: 'a' }, 1)
    const leaving = new AbortController()
    const left = budget.take({ owner: 'a' }, 1, leaving.signal).catch((reason: unknown) => reason)
    leaving.abort(new Error('left'))
    expect(await left).to.have.property('message', 'left')
    release?.()
    expect(budget.use).to.deep.equal({ used: 0, limit: 1, largest: 0, waiting: 0 })
  })

  it('restores a spent amount after its time', async () => {
    const budget = new Budget({ limit: 1 })
    expect(budget.spend({ owner: 'a' }, 1, 1)).to.equal(undefined)
    const free = budget.spend({ owner: 'a' }, 1, 1)
    expect(free).to.be.a('promise')
    await free
  })
})

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
