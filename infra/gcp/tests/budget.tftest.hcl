mock_provider "google" {
  mock_data "google_project" {
    defaults = { number = "123456789012" }
  }
}

variables {
  name            = "nightshift-dev"
  project_id      = "example-project"
  billing_account = "012345-6789AB-CDEF01"
  amount          = 100
  emails          = ["ml@example.com"]
}

run "an_email_has_a_domain" {
  command = plan

  module {
    source = "./modules/budget"
  }

  variables {
    emails = ["ml"]
  }

  expect_failures = [var.emails]
}

run "each_input_is_refused_by_name" {
  command = plan

  module {
    source = "./modules/budget"
  }

  variables {
    name   = ""
    amount = 0
    emails = []
  }

  expect_failures = [
    var.name,
    var.amount,
    var.emails,
  ]
}
