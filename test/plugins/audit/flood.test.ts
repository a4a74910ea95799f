import { FloodGate } from '@svc/plugin-audit/internal/flood'
import { expect } from 'chai'

describe('FloodGate', () => {
  it('lets fifty refused requests a second have a record each', () => {
    const gate = new FloodGate()
    const admitted = Array.from({ length: 60 }, () => gate.admit(5_000)).filter(Boolean)
    expect(admitted).to.have.length(50)
    expect(gate.take()).to.equal(10)
  })

  it('starts anew with the next second', () => {
    const gate = new FloodGate()
    for (let i = 0; i < 60; i++) gate.admit(5_000)
    expect(gate.admit(6_000)).to.equal(true)
  })

  it('tells the count once', () => {
    const gate = new FloodGate()
    for (let i = 0; i < 60; i++) gate.admit(5_000)
    gate.take()
    expect(gate.take()).to.equal(0)
  })
})
