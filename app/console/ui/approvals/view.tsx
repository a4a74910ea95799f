// The view of the escalations that wait for a decision.

import type { CallerView } from '../../../escalations/escalation-json.js'
import { ApprovalsIcon } from '../kit/icons.js'
import { defineView, type ViewProps } from '../kit/view.js'
import { Approvals } from './approvals.js'
import { CallerPage } from './caller-page.js'
import { type ApprovalsData, loadApprovals } from './load.js'

export const approvalsView = defineView({
  id: 'approvals',
  title: 'Approvals',
  Icon: ApprovalsIcon,
  isFor: () => true,
  count: ({ pending, pending_more: more }) => (pending === 0 ? '' : `${pending}${more ? '+' : ''}`),
  load: loadApprovals,
  View({ data }: ViewProps<ApprovalsData | CallerView>) {
    return 'escalation_id' in data ? <CallerPage initial={data} /> : <Approvals initial={data} />
  },
})
