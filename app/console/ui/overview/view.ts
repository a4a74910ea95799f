// The view of the last 24 hours.
import { OverviewIcon } from '../kit/icons.js'
import { defineView } from '../kit/view.js'
import { loadOverview } from './load.js'
import { Overview } from './overview.js'

export const overviewView = defineView({
  id: 'overview',
  title: 'Overview',
  Icon: OverviewIcon,
  isFor: ({ may, votes, approval_sets: sets }) =>
    may.read_all || may.read_outlines || (votes === 'person' && sets.length === 0),
  load: loadOverview,
  View: Overview,
})
