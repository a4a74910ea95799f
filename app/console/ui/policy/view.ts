// The view of the policy in force.
import { PolicyIcon } from '../kit/icons.js'
import { defineView } from '../kit/view.js'
import { loadPolicyView } from './load.js'
import { PolicyPages } from './policy.js'

export const policyView = defineView({
  id: 'policy',
  title: 'Policy',
  Icon: PolicyIcon,
  isFor: ({ may }) => may.read_all,
  load: loadPolicyView,
  View: PolicyPages,
})
