import { FloodLimiter } from '@svc/plugin-audit/internal/record-limits'
import { expect } from 'chai'

describe('FloodLimiter', () => {
  it('admits fifty records a second', () => {
    const gate = new FloodLimiter()
    const admitted = Array.from({ length: 60 }, () => gate.admit(5_000, 1)).filter(Boolean)
    expect(admitted).to.have.length(50)
    expect(gate.takeSuppressed()).to.equal(10)
  })

  it('admits again in the next second', () => {
    const gate = new FloodLimiter()
    for (let i = 0; i < 60; i++) gate.admit(5_000, 1)
    expect(gate.admit(6_000, 1)).to.equal(true)
  })

  it('returns the count once', () => {
    const gate = new FloodLimiter()
    for (let i = 0; i < 60; i++) gate.admit(5_000, 1)
    gate.takeSuppressed()
    expect(gate.takeSuppressed()).to.equal(0)
  })

  it('admits as many bytes a second as fifty ordinary records have', () => {
    const gate = new FloodLimiter()
    const admitted = Array.from({ length: 60 }, () => gate.admit(5_000, 16_384)).filter(Boolean)
    expect(admitted).to.have.length(8)
    expect(gate.admit(6_000, 16_384)).to.equal(true)
  })
})
