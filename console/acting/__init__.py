"""Offer, confirm and execute the actions of `punctual.operations` in the console.

One view serves every action: GET shows a preview and changes nothing, POST executes and redirects.

| question | module |
|---|---|
| what a URL acts on, where its page leads | `targets` |
| how a request is answered | `view` |
| which field a parameter gets, the reason | `action_forms`, `instant_field` |
| how facts, results and messages look | `presentation` |
| which buttons a page has | `buttons` |
| who is logged as the requester | `admin_log` |

Every action checks its permission on GET and POST. An action that is refused, or whose target changed
meanwhile, changes nothing and says so in a message.
"""
