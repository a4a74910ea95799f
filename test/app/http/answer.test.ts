import { denied } from '@svc/core'
import { expect } from 'chai'
import { errorObject, noCall } from 'svc-sdk/internal/http/answer'

describe('the error object', () => {
  it('names the escalation that decides of the call', () => {
    const outcome = denied('ESCALATION_PENDING', 'A person decides.', {
      escalation: { id: 'esc-1', status: 'pending' },
    })
    expect(errorObject(outcome, noCall('a'.repeat(32)))).to.deep.equal({
      error: 'ESCALATION_PENDING',
      message: 'A person decides.',
      escalation_id: 'esc-1',
      escalation_status: 'pending',
      sent: false,
      trace_id: 'a'.repeat(32),
    })
  })
})
