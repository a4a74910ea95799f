// The view of escalations: what waits for a decision.
import { ApprovalsIcon } from '../kit/icons.js'
import { defineView } from '../kit/view.js'
import { Approvals } from './approvals.js'
import { loadApprovals } from './load.js'

export const approvalsView = defineView({
  id: 'approvals',
  title: 'Approvals',
  Icon: ApprovalsIcon,
  isFor: () => true,
  count: (status) => status.pending,
  load: loadApprovals,
  View: Approvals,
})
